"""What scripts/rule.js recommends from, for other budgets and weights than the verdict's.

A recommendation is an estimate: it is picked by the very numbers that are shown, and each limit
holds for one point alone. Only the verdict, at its own budget and weights, was tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.beliefs.belief import largest_mean_success_rate

if TYPE_CHECKING:
    from trilemma.game.playing.claims import Claim
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.results.points import Point

__all__ = ["Explorer", "Preference"]

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
        """The largest rate of right guesses within a budget, for the claim's N."""
        return largest_mean_success_rate(budget, self.claim.kappa)


def _mean(weight: float | Sequence[float]) -> float:
    return math.fsum(weight) / len(weight) if isinstance(weight, Sequence) else weight
