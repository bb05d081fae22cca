"""Candidates with costs, and prices of a few seeds."""

from __future__ import annotations

from trilemma.federation.round_timing import Spent
from trilemma.game.costs import Costs
from trilemma.game.estimates import Estimate
from trilemma.tuning.families.pricing import Pricing
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.candidate import Candidate


def pricing(problem: Problem | None = None) -> Pricing:
    return Pricing(problem or Problem(), 8, (0, 1, 2), 1e6, 0.95)


def costs(loss: float = 0.0, slow: float = 0.0, bits: float = 1.0) -> Costs:
    spent = Spent(bits, bits, 1.0, 0.0, 0.0, 0.0)
    return Costs(
        "x", 8, 2, 0.95, 1e6, 0.9, 0.9 - loss, Estimate(loss, loss, loss), (),
        Estimate(slow, slow, slow), spent, spent,
    )  # fmt: skip


def candidate(name: str, value: float, width: float = 0.0, bits: float = 1.0) -> Candidate:
    found = Estimate(value, value - width, value + width)
    return Candidate(name, "measured", True, True, "", costs=costs(bits=bits), objective=found)
