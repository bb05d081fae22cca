"""A few records, drawn at random, beside what each attack makes of them and what it picks.

It holds records, so it is made only where the scenario's `show_records` says that they may be
shown, and it lives in a file of its own: a verdict never holds one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from trilemma.errors import InvalidInput
from trilemma.estimation.tasks import AttackTask, read_attack
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.beside import recipe_of
from trilemma.tuning.results.documents import Document

if TYPE_CHECKING:
    from trilemma.tuning.choosing.procedures import Procedure
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Ask

__all__ = ["GALLERY", "RECORDS", "Column", "Gallery", "gallery_procedure"]

GALLERY: Final = "gallery.json"
RECORDS: Final = 8
Label = Literal["unprotected", "verdict"]
Picture = tuple[Annotated[int, Field(ge=0, le=255)], ...]


@dataclass(frozen=True)
class Column:
    """What `attack` makes of the records under one protection, and which candidate it picks.

    `made` is the reconstruction nearest to the pick; of an attack that owns the line-up it is the
    pick itself. `rounds` 1: one round that holds the record.
    """

    label: Label
    protection: str
    attack: str
    rounds: int
    made: tuple[Picture, ...]
    picked: tuple[Picture, ...]
    correct: tuple[bool, ...]


@dataclass(frozen=True)
class Gallery:
    """Records drawn at random as pictures [c, h, w] of levels 0 .. 255 between low and high.

    Every column holds games of its own label in the order of `tagged[label]`, the records that
    were tagged before the attack.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    shape: tuple[int, int, int]
    low: float
    high: float
    tagged: dict[Label, tuple[Picture, ...]]
    columns: tuple[Column, ...]
    gallery_version: Literal[2] = 2

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        size = channels * height * width
        for column in self.columns:
            count = len(self.tagged.get(column.label, ()))
            if not len(column.made) == len(column.picked) == len(column.correct) == count:
                raise InvalidInput("every column of a gallery needs one picture a record.")
        pictures = [each for rows in self.tagged.values() for each in rows]
        pictures += [each for c in self.columns for each in (*c.made, *c.picked)]
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
    2,
    remedy="take the gallery.json that trilemma tune wrote",
    key="gallery_version",
)


def gallery_procedure(plan: Plan, chosen: Candidate) -> Procedure:
    """Play a few games without protection and at the verdict, with every attack of the rung."""
    protection = parse_protection(chosen.protection or "none")
    asked = plan.request.adversary
    shown: list[tuple[Label, str, int]] = [("unprotected", "none", 1)]
    hidden = asked is Adversary.SERVER and protection.transport.server_reads == "nothing"
    if not hidden and chosen.protection not in (None, "none"):
        shown.append(("verdict", protection.describe(), chosen.rounds))

    def make(ask: Ask) -> Gallery:
        tasks = [
            AttackTask(
                stream=f"gallery, {label}",
                protection=spec,
                attacks=plan.suite.attacks,
                adversary=asked,
                rounds=rounds,
                first=0,
                count=RECORDS,
                pictures=RECORDS,
                recipe=recipe_of(chosen) if label == "verdict" else None,
            )
            for label, spec, rounds in shown
        ]
        payloads = [read_attack(payload)["pictures"] for payload in ask(tasks)]
        spec = plan.scenario.input_spec
        return Gallery(
            shape=_picture_shape(spec.shape),
            low=spec.low,
            high=spec.high,
            tagged={
                each[0]: _pictures(found["tagged"])
                for each, found in zip(shown, payloads, strict=True)
            },
            columns=tuple(
                Column(
                    label=label,
                    protection=described,
                    attack=name,
                    rounds=rounds,
                    made=_pictures(column["made"]),
                    picked=_pictures(column["picked"]),
                    correct=tuple(column["correct"]),
                )
                for (label, described, rounds), found in zip(shown, payloads, strict=True)
                for name, column in found["attacks"].items()
            ),
        )

    return make


def _pictures(levels: list[list[int]]) -> tuple[Picture, ...]:
    return tuple(map(tuple, levels))


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Inputs as pictures [c, h, w]: a flat square as a square, what is no image as one line."""
    size = math.prod(shape)
    if len(shape) == 3 and shape[0] in (1, 3):
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    side = math.isqrt(size)
    return (1, side, side) if len(shape) == 1 and side**2 == size else (1, 1, size)
