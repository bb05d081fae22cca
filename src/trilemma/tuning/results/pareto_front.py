"""The measured front: all points, which of them are on it, and pareto.json, its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trilemma.game.playing.claims import Claim
from trilemma.tuning.request import Request
from trilemma.tuning.results.documents import Kept
from trilemma.tuning.results.points import Point
from trilemma.tuning.results.verdict import Federation

__all__ = ["Front", "SamplerName"]

SamplerName = Literal["grid", "motpe", "nsga2"]


@dataclass(frozen=True)
class Front(Kept):
    """All points that were measured, and which of them (by place) are on the front.

    `hypervolume` is that of the front's `Point.objectives`, rounded to `resolution`, below
    `reference`; `knee` the place of the point of the front nearest to its utopia point, each
    objective scaled to the front's range. `reproduce` is the command that repeats it where no
    trilemma.toml is, or the call.
    """

    file: ClassVar = "pareto.json"
    remedy: ClassVar = "take the pareto.json that trilemma pareto wrote"
    upgrade: ClassVar = "run the same trilemma pareto command again with --fresh --out {folder}"

    limits: tuple[str, ...]
    points: tuple[Point, ...]
    front: tuple[int, ...]
    knee: int
    hypervolume: float
    reference: tuple[float, ...]
    resolution: tuple[float, ...]
    sampler: SamplerName
    evaluations: int
    wanted: int
    request: Request
    claim: Claim
    attacks: tuple[str, ...]
    federation: Federation
    versions: dict[str, str]
    reproduce: str = ""
    schema_version: Literal[4] = 4
