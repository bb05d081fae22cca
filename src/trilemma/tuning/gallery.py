"""A few records beside what attacks make of them, from no protection to the strongest.

It holds records, so it is made only where the scenario's `show_records` says that they may be
shown, and it lives in a file of its own: a verdict never holds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from trilemma.errors import InvalidInput
from trilemma.tuning.documents import Document

__all__ = ["GALLERY", "Column", "Gallery"]

GALLERY: Final = "gallery.json"
Picture = tuple[Annotated[int, Field(ge=0, le=255)], ...]


@dataclass(frozen=True)
class Column:
    """What `attack` makes of the records under one protection, and the PSNR (dB) of each.

    `mechanism` and `parameter` are as in the verdict's curves; `protection` is what a federation
    runs there.
    """

    label: Literal["unprotected", "paper's optimum", "verdict", ""]
    mechanism: str
    parameter: float | None
    protection: str
    attack: str
    recoveries: tuple[Picture, ...]
    psnr: tuple[float, ...]


@dataclass(frozen=True)
class Gallery:
    """Records and their recoveries as pictures [c, h, w] of levels 0 .. 255 between low and high.

    Columns go from no protection to the strongest. Every one holds the same records, those tagged
    before the attack, in the order of `originals`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    shape: tuple[int, int, int]
    low: float
    high: float
    originals: tuple[Picture, ...]
    columns: tuple[Column, ...]
    gallery_version: Literal[1] = 1

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        size = channels * height * width
        for column in self.columns:
            if not len(column.recoveries) == len(column.psnr) == len(self.originals):
                raise InvalidInput("every column of a gallery needs one recovery a record.")
        pictures = [*self.originals, *(each for c in self.columns for each in c.recoveries)]
        if any(len(each) != size for each in pictures):
            raise InvalidInput(f"every picture of this gallery needs {size} levels.")

    def as_json(self) -> dict[str, Any]:
        """The gallery as plain values, the version first."""
        return _DOCUMENT.plain(self)

    def save(self, path: Path | str) -> None:
        """Write the gallery; the file is complete, or not there."""
        _DOCUMENT.write(self, path)

    @staticmethod
    def load(path: Path | str) -> Gallery:
        """The gallery in a file."""
        return _DOCUMENT.read(path)


_DOCUMENT: Final = Document(
    Gallery,
    "gallery",
    1,
    remedy="take the gallery.json that trilemma tune wrote",
    key="gallery_version",
)
