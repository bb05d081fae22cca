"""What the measured curves recommend for other budgets and weights; scripts/rule.js agrees.

A recommendation is an estimate: it is picked by the very numbers that are shown, and each limit
holds for one point alone. Only the verdict, at its own budget and weights, was tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.beliefs.belief import largest_mean_success_rate
from trilemma.estimation.leakage import Estimate

if TYPE_CHECKING:
    from trilemma.estimation.playing.claims import Claim
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.results.points import Point

__all__ = ["Explorer", "Option", "Preference", "Recommendation"]

_MASKS: Final = frozenset({"bounded-masks"})
_BUDGETS: Final = tuple(step / 50 for step in range(1, 50))
_WEIGHTS: Final = (
    0.0,
    *(float(f"{digit}e{power}") for power in range(-4, 2) for digit in (1, 2, 5)),
)


@dataclass(frozen=True)
class Preference:
    """A budget and one weight for all clients."""

    budget: float
    utility_weight: float
    efficiency_weight: float

    @classmethod
    def of(cls, problem: Problem) -> Preference:
        """That of a problem; weights of single clients by their mean."""
        return cls(problem.budget, _mean(problem.utility_weight), _mean(problem.efficiency_weight))


@dataclass(frozen=True)
class Option:
    """A family at the weakest measured strength that keeps the budget, by its place."""

    place: int
    objective: Estimate
    tied: bool


@dataclass(frozen=True)
class Recommendation:
    """The options, the best first; `own` where the preference is that of the verdict.

    `allowed` is the rate of right picks that the budget allows out of the claim's line-up.
    """

    own: bool
    allowed: float
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Explorer:
    """Measured points, the claim they are about, caps, and the verdict's own preference.

    `once` are the families that were measured for one round, where the claim is on a training.
    """

    points: tuple[Point, ...]
    claim: Claim
    start: Preference
    verdict: Preference | None = None
    max_utility_loss: float | None = None
    max_cost: float | None = None
    once: frozenset[str] = frozenset()

    @property
    def stops(self) -> dict[str, list[float]]:
        """Where the sliders halt; the starting preference is among them, exactly."""
        return {
            "budget": sorted({*_BUDGETS, self.start.budget}),
            "utility_weight": sorted({*_WEIGHTS, self.start.utility_weight}),
            "efficiency_weight": sorted({*_WEIGHTS, self.start.efficiency_weight}),
        }

    @property
    def barred(self) -> frozenset[str]:
        """Families that are never recommended.

        No federation should run bounded masks, and one round says nothing of a training.
        """
        return _MASKS | self.once

    def allowed(self, budget: float) -> float:
        """The largest rate of right picks within a budget, for the claim's N."""
        return largest_mean_success_rate(budget, self.claim.kappa)

    def recommend(self, wanted: Preference) -> Recommendation:
        """min η_u·ε_u + η_e·ε_e over the families, each at its weakest strength that will do.

        That is the weakest measured point at which, and at every stronger one, the upper limit
        of the leakage is within the budget.
        """
        found = []
        for family in dict.fromkeys(each.family for each in self.points):
            place = self._weakest(family, wanted.budget)
            if place is not None and family not in self.barred and self._within_caps(place):
                found.append((place, self._objective(place, wanted)))
        found.sort(key=lambda each: each[1].value)
        return Recommendation(
            own=wanted == self.verdict,
            allowed=self.allowed(wanted.budget),
            options=tuple(
                Option(place, objective, rank > 0 and objective.low <= found[0][1].high)
                for rank, (place, objective) in enumerate(found)
            ),
        )

    def _weakest(self, family: str, budget: float) -> int | None:
        """From strong to weak, as long as the limit stays within the budget."""
        places = [n for n, each in enumerate(self.points) if each.family == family]
        weakest = None
        for place in sorted(places, key=lambda n: -(self.points[n].place or 0.0)):
            point = self.points[place]
            if point.protection is None:  # cannot be run, so that nothing was attacked
                continue
            if point.leakage is not None and point.leakage.high > budget:
                break
            if point.utility_loss is not None and point.efficiency_reduction is not None:
                weakest = place
        return weakest

    def _within_caps(self, place: int) -> bool:
        loss, reduction = _costs(self.points[place])
        return not (
            (self.max_utility_loss is not None and loss.value > self.max_utility_loss)
            or (self.max_cost is not None and reduction.value > self.max_cost)
        )

    def _objective(self, place: int, wanted: Preference) -> Estimate:
        loss, reduction = _costs(self.points[place])
        ends = (
            wanted.utility_weight * getattr(loss, end)
            + wanted.efficiency_weight * getattr(reduction, end)
            for end in ("value", "low", "high")
        )
        return Estimate(*ends)


def _costs(point: Point) -> tuple[Estimate, Estimate]:
    assert point.utility_loss is not None
    assert point.efficiency_reduction is not None
    return point.utility_loss, point.efficiency_reduction


def _mean(weight: float | Sequence[float]) -> float:
    return math.fsum(weight) / len(weight) if isinstance(weight, Sequence) else weight
