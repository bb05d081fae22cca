"""What `trilemma paper` finds, in one value: paper.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trilemma.game.estimates import Estimate
from trilemma.paper_framework.constants_from_counts import EstimatedConstants
from trilemma.paper_framework.solving import Optimum
from trilemma.tuning.results.documents import Kept, Shares

__all__ = ["Curve", "Measured", "Modelled", "Paper", "Row"]


@dataclass(frozen=True)
class Measured:
    """What attacks, trainings and rounds say of one protection.

    `gamma` is its place on the mechanism's axis. `recovered` of the target records of `units`
    updates; `leakage` against the prior of the constants. `bits` of a round, as a multiple of an
    unprotected one. None, and a `note`: the federation could not be trained so.
    """

    gamma: float
    protection: str
    units: int
    recovered: int
    leakage: Shares
    utility_loss: Estimate | None = None
    efficiency_reduction: Estimate | None = None
    bits: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Modelled:
    """What the paper says at one γ: the metric, Theorem 4.1's bound, and the other two bounds."""

    gamma: float
    distortion: float
    metric: float
    leakage_bound: float
    utility_bound: float
    efficiency_bound: float


@dataclass(frozen=True)
class Curve:
    """One mechanism against γ, from weak to strong; `axis` is what γ is written as."""

    mechanism: str
    axis: str
    modelled: tuple[Modelled, ...]
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Row:
    """γ* of one mechanism in one form, and what was measured there; or why nothing was."""

    optimum: Optimum
    gamma: float | None
    leakage_bound: float | None
    measured: Measured | None
    note: str


@dataclass(frozen=True)
class Paper(Kept):
    """The paper's algorithm on one federation, and what was measured beside it.

    `deltas`, `precisions` (A) and `floored` (sigmas that were zero) have one entry a client.
    """

    file: ClassVar = "paper.json"
    remedy: ClassVar = "take the paper.json that trilemma paper wrote"

    scenario: str
    clients: int
    parameters: int
    attack: str
    criterion: str
    steps: int
    seed: int
    budget: float
    utility_weight: float | tuple[float, ...]
    efficiency_weight: float | tuple[float, ...]
    max_utility_loss: float | None
    max_cost: float | None
    estimated: EstimatedConstants
    deltas: tuple[float | None, ...]
    precisions: tuple[float, ...]
    floored: tuple[int, ...]
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    rounds: int
    seeds: int
    restarts: int
    cpu_seconds: float
    schema_version: Literal[1] = 1
