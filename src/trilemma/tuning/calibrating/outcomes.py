"""What a calibration asks of an attack, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from scipy.special import betaincinv

from trilemma.beliefs.intervals import Interval, clopper_pearson
from trilemma.errors import InvalidInput
from trilemma.tuning.calibrating.success_curve import CurveSummary

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "UNPROTECTED",
    "AttackUnits",
    "Calibration",
    "Control",
    "Outcome",
    "TestedStrength",
    "counts_by_strength",
    "non_monotone",
]

UNPROTECTED: Final = -math.inf  # log₁₀ of strength 0
_ODD: Final = 0.01  # level of the report that a curve is not monotone


class AttackUnits(Protocol):
    """Attack `count` fresh units, numbered from `first_unit`, at strength x; say how many fell.

    x is `UNPROTECTED` for no protection. The answer is the number of successes or one truth value
    a unit. A unit that diverged counts as a success, and none may be left out.
    """

    def __call__(
        self, x: float, count: int, stage: str, first_unit: int
    ) -> int | Sequence[bool] | NDArray[np.bool_]: ...


class Outcome(StrEnum):
    """How a calibration ended."""

    CERTIFIED = "certified"
    NOT_CERTIFIED = "not-certified"
    ATTACK_FAILED = "attack-failed"  # the control: without protection nothing was recovered either


@dataclass(frozen=True)
class Control:
    """How the attack fares without any protection."""

    successes: int
    units: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.units or self.units < 1:
            raise InvalidInput(
                f"a control needs 0 <= successes <= units and at least one unit, "
                f"got {self.successes} of {self.units}."
            )


@dataclass(frozen=True)
class TestedStrength:
    """What was seen at one strength; `allowed` and `passed` are None where nothing was tested."""

    __test__ = False  # a name that pytest would collect

    x: float
    units: int
    successes: int
    stage: str
    level: float | None = None
    allowed: int | None = None
    passed: bool | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.units or self.units < 1:
            raise InvalidInput(
                f"a strength needs 0 <= successes <= units and at least one unit, "
                f"got {self.successes} of {self.units}."
            )

    @property
    def pointwise_interval(self) -> Interval:
        """95 % Clopper-Pearson interval as if this strength had been chosen in advance."""
        return clopper_pearson(self.successes, self.units)


@dataclass(frozen=True)
class Calibration:
    """The result. `x` is exactly as tested, never rounded or interpolated; None: not certified.

    `pointwise_interval` is for display: it ignores that this strength was selected. What is
    certified, at confidence 1 - α, is that the success rate at x is at most `p_max`.
    """

    outcome: Outcome
    p_max: float
    alpha: float
    x: float | None
    points: tuple[TestedStrength, ...]
    units: int
    reason: str
    curve: CurveSummary | None = None
    pointwise_interval: Interval | None = None
    smallest_upper_limit: float | None = None
    units_needed: int | None = None
    non_monotone: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.x is not None) != (self.outcome is Outcome.CERTIFIED):
            raise InvalidInput(
                f"a calibration has a strength exactly when it is certified, got x = {self.x} and "
                f"{self.outcome.value}."
            )

    @property
    def tested(self) -> tuple[TestedStrength, ...]:
        """The points that were tested with fresh units, in order."""
        return tuple(point for point in self.points if point.passed is not None)

    @property
    def explored(self) -> tuple[TestedStrength, ...]:
        """The points that only served to choose the others."""
        return tuple(point for point in self.points if point.passed is None)


def counts_by_strength(points: Sequence[TestedStrength]) -> dict[float, tuple[int, int]]:
    """(successes, units) seen at each x over all stages, from weak to strong."""
    counts = dict.fromkeys(sorted({point.x for point in points}), (0, 0))
    for point in points:
        successes, units = counts[point.x]
        counts[point.x] = successes + point.successes, units + point.units
    return counts


def non_monotone(points: Sequence[TestedStrength]) -> tuple[float, float] | None:
    """(weaker, stronger) x where success rises significantly with strength, if anywhere.

    Neighbouring strengths are pooled: on a falling curve no run of weaker ones can have a lower
    mean rate than a run of stronger ones. Every run gets a Clopper-Pearson interval at a level
    shared by them all; two that lie apart the wrong way round are reported by their nearest ends.
    """
    counts = counts_by_strength(points)
    xs = list(counts)
    totals = np.cumsum([(0, 0), *counts.values()], axis=0).T
    starts, ends = np.triu_indices(len(xs) + 1, 1)
    successes, units = totals[:, ends] - totals[:, starts]
    tail = _ODD / (2 * len(starts))
    with np.errstate(all="ignore"):  # no success has no lower limit: set just below
        low = np.where(successes == 0, 0.0, betaincinv(successes, units - successes + 1, tail))
        high = np.where(
            successes == units, 1.0, betaincinv(successes + 1, units - successes, 1 - tail)
        )
    for cut in range(1, len(xs)):
        if low[starts >= cut].max() > high[ends <= cut].min():
            stronger = starts[starts >= cut][low[starts >= cut].argmax()]
            return xs[cut - 1], xs[int(stronger)]
    return None
