"""A few records beside what attacks make of them, from no protection to the strongest.

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
from trilemma.tuning.results.documents import Document

if TYPE_CHECKING:
    from trilemma.protections.protection import Protection
    from trilemma.tuning.choosing.families import Family, Seen
    from trilemma.tuning.choosing.procedures import Procedure
    from trilemma.tuning.fronts.meter import Meter
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.verdict import Candidate, Verdict
    from trilemma.work.replay import Ask

__all__ = ["GALLERY", "RECORDS", "Column", "Gallery", "gallery_procedure"]

GALLERY: Final = "gallery.json"
RECORDS: Final = 4
Label = Literal["unprotected", "paper's optimum", "verdict", ""]
Picture = tuple[Annotated[int, Field(ge=0, le=255)], ...]


@dataclass(frozen=True)
class Column:
    """What `attack` makes of the records under one protection, and the PSNR (dB) of each.

    `mechanism` and `parameter` are as in the verdict's curves; `protection` is what a federation
    runs there.
    """

    label: Label
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


@dataclass(frozen=True)
class _Wanted:
    """A column to be made: what a federation runs there, what is attacked, on how many units."""

    label: Label
    mechanism: str
    parameter: float | None
    protection: str
    attacked: str
    units: int = RECORDS


def gallery_procedure(meter: Meter, verdict: Verdict, chosen: Candidate) -> Procedure:
    """Attack a few units at no protection, the paper's optimum, the chosen curve and value.

    Where the curve has attacked the very units, its pictures are taken.
    """
    plan = meter.plan
    family = next((each for each in plan.families if each.name == chosen.name), None)
    seen: Seen = "sum" if plan.adversary is Adversary.CLIENT else "message"
    if family is not None and family.seen == "sum":
        seen = "sum"
    binding = [each for each in verdict.attacks if each.binding]
    attack = max(binding, key=lambda each: each.control_recovered).name
    wanted = [
        each
        for each in _wanted(meter, verdict, chosen, family)
        if _reads(plan, parse_protection(each.attacked))
    ]

    def make(ask: Ask) -> Gallery:
        tasks = [
            AttackTask(
                stream=meter.stream(seen),
                protection=each.attacked,
                attack=attack,
                adversary=plan.adversary,
                first=0,
                count=each.units,
                pictures=RECORDS,
            )
            for each in wanted
        ]
        payloads = [read_attack(payload) for payload in ask(tasks)]
        spec = plan.scenario.input_spec
        return Gallery(
            shape=_picture_shape(spec.shape),
            low=spec.low,
            high=spec.high,
            originals=_pictures(payloads[0]["originals"]),
            columns=tuple(
                Column(
                    label=each.label,
                    mechanism=each.mechanism,
                    parameter=each.parameter,
                    protection=each.protection,
                    attack=attack,
                    recoveries=_pictures(found["recoveries"]),
                    psnr=tuple(found["psnr"]),
                )
                for each, found in zip(wanted, payloads, strict=True)
            ),
        )

    return make


def _wanted(
    meter: Meter, verdict: Verdict, chosen: Candidate, family: Family | None
) -> list[_Wanted]:
    """From no protection to the strongest."""
    whole = meter.units if verdict.curves else RECORDS
    wanted = [_Wanted("unprotected", "none", None, "none", "none", whole)]
    law = chosen.name.removeprefix("surrogate ").split("+")[0]
    if chosen.basis == "certified":
        law = "randomization"
    promised = [each for each in verdict.promises if each.mechanism == law and each.protection]
    for each in promised[-1:]:  # the corrected form comes last
        spec = each.protection or ""
        if spec != chosen.protection:
            wanted.append(_Wanted("paper's optimum", law, each.parameter, spec, spec))
    for point in verdict.curves:
        known = point.strength is not None and point.protection is not None
        if family is None or point.mechanism != chosen.name or not known:
            continue
        if point.parameter != chosen.parameter:
            _, shown = meter.sights(family, family.at(point.strength or 0.0))[0]
            place = (point.mechanism, point.parameter, point.protection or "")
            wanted.append(_Wanted("", *place, shown.describe(), whole))
    spec = chosen.protection or "none"
    wanted.append(_Wanted("verdict", chosen.name, chosen.parameter, spec, spec))
    if family is None or family.knob is None:
        return wanted
    return sorted(
        wanted, key=lambda x: -math.inf if x.parameter is None else family.position(x.parameter)
    )


def _reads(plan: Plan, protection: Protection) -> bool:
    """Whether there is anything to attack: a key may hide all."""
    return plan.adversary is Adversary.CLIENT or protection.transport.server_reads != "nothing"


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
