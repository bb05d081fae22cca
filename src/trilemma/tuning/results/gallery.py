"""A few records, drawn at random, beside what each attack makes of them and what it guesses.

It holds records, so it is made only where the scenario's `show_records` says that they may be
shown, and it lives in a file of its own: a verdict never holds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from trilemma.errors import InvalidInput
from trilemma.tuning.results.documents import Kept

__all__ = ["GALLERY", "RECORDS", "Cell", "Column", "Gallery", "Label", "Picture"]

GALLERY: Final = "gallery.json"
RECORDS: Final = 4
Label = Literal["unprotected", "verdict"]
Level = Annotated[int, Field(ge=0, le=255)]
Cell = tuple[str, bool]
"""A value of a table or a word of a text, and whether it is the target record's."""
Picture = tuple[Level, ...] | tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """What `attack` makes of the records under one protection, and which candidate it guesses.

    `made` is the reconstruction nearest to the guess; of an attack that owns the candidate set it
    is the guess itself. `rounds` 1: one round that holds the record.
    """

    label: Label
    protection: str
    attack: str
    rounds: int
    made: tuple[Picture, ...]
    guessed: tuple[Picture, ...]
    correct: tuple[bool, ...]


@dataclass(frozen=True)
class Gallery(Kept):
    """Records drawn at random as pictures [c, h, w] of levels 0 .. 255 between low and high.

    Of a table or text, one cell for each of `heads` instead.
    Every column holds games of its own label in the order of `target[label]`, the records that
    were drawn as targets before the attack.
    """

    version_key: ClassVar = "gallery_version"
    file: ClassVar = GALLERY
    remedy: ClassVar = "take the gallery.json that trilemma tune wrote"
    private: ClassVar = True  # it holds records

    shape: tuple[int, int, int]
    low: float
    high: float
    target: dict[Label, tuple[Picture, ...]]
    columns: tuple[Column, ...]
    heads: tuple[str, ...] = ()
    gallery_version: Literal[2] = 2

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        size = len(self.heads) or channels * height * width
        for column in self.columns:
            count = len(self.target.get(column.label, ()))
            if not len(column.made) == len(column.guessed) == len(column.correct) == count:
                raise InvalidInput(
                    f"every column of a gallery needs one picture a record, got "
                    f"{len(column.made)} of {column.attack} for {count}."
                )
        pictures = [row for rows in self.target.values() for row in rows]
        pictures += [value for c in self.columns for value in (*c.made, *c.guessed)]
        if any(len(picture) != size for picture in pictures):
            raise InvalidInput(f"every picture of this gallery needs {size} levels.")
        if any(isinstance(item, int) is bool(self.heads) for row in pictures for item in row):
            raise InvalidInput(
                f"a gallery holds levels, or cells under {len(self.heads)} heads, not both."
            )
