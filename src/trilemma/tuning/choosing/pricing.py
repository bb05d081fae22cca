"""Choosing among protections that keep the budget: utility and cost, measured and weighed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trilemma.errors import InvalidInput
from trilemma.estimation.costs import Costs, check_bandwidth, compare, paired_estimate
from trilemma.estimation.leakage import Estimate
from trilemma.estimation.paper_bounds import paper_bounds
from trilemma.estimation.tasks import TrainTask, read_training

if TYPE_CHECKING:
    from trilemma.estimation.recipes import Recipe
    from trilemma.federation.training import History
    from trilemma.protections.protection import Protection
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.updates import Profile
    from trilemma.work.replay import Ask

__all__ = ["Pricing", "breached_cap", "ranked"]


@dataclass(frozen=True)
class Pricing:
    """How utility and cost are measured, alike for all protections."""

    problem: Problem
    profile: Profile
    rounds: int
    seeds: tuple[int, ...]
    bandwidth: float
    confidence: float

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def price(
        self,
        ask: Ask,
        protection: Protection,
        *,
        recipe: Recipe | None = None,
        without: Recipe | None = None,
    ) -> tuple[Costs, Estimate]:
        """Costs at the protection, and η_u·ε_u + η_e·ε_e over the paired seeds.

        The protected trainings follow `recipe`, those without protection `without` (None: the
        federation's own).
        """
        arms = (("none", without), (protection.describe(), recipe))
        payloads = ask(
            [TrainTask(spec, seed, self.rounds, way) for spec, way in arms for seed in self.seeds]
        )
        histories = [read_training(payload) for payload in payloads]
        plain, shielded = histories[: len(self.seeds)], histories[len(self.seeds) :]
        found = compare(
            protection.describe(),
            plain,
            shielded,
            bandwidth=self.bandwidth,
            confidence=self.confidence,
            bounds=paper_bounds(protection, self.profile),
        )
        return found, self._objective(plain, shielded, found)

    def _objective(
        self, plain: Sequence[History], shielded: Sequence[History], costs: Costs
    ) -> Estimate:
        """Seed by seed; the efficiency of a round, which has no seed, enters by its estimate."""
        reduction = costs.efficiency_reduction
        each_client = any(
            isinstance(weight, tuple)
            for weight in (self.problem.utility_weight, self.problem.efficiency_weight)
        )
        values = []
        for before, after in zip(plain, shielded, strict=True):
            losses = [before.metric - after.metric]
            if each_client:
                pairs = zip(before.client_metrics, after.client_metrics, strict=True)
                losses = [a - b for a, b in pairs]
            values.append(self.problem.objective(losses, [reduction.value] * len(losses)))
        found = paired_estimate(values, self.confidence)
        clients = len(plain[0].client_metrics) if each_client else 1
        slack = [
            self.problem.objective([0.0] * clients, [end - reduction.value] * clients)
            for end in (reduction.low, reduction.high)
        ]
        return Estimate(found.value, found.low + slack[0], found.high + slack[1])


def breached_cap(problem: Problem, costs: Costs) -> str:
    """Why a measured protection is beyond the user's caps; empty if it is not."""
    loss, reduction = costs.utility_loss.value, costs.efficiency_reduction.value
    if problem.max_utility_loss is not None and loss > problem.max_utility_loss:
        return (
            f"The utility loss of {loss:.3g} exceeds the cap of {problem.max_utility_loss:g}; "
            f"raise the cap or the budget."
        )
    if problem.max_cost is not None and reduction > problem.max_cost:
        return (
            f"The efficiency reduction of {reduction:.3g} exceeds the cap of "
            f"{problem.max_cost:g}; raise the cap or the budget."
        )
    return ""


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, the best first; those that cannot be chosen keep no rank and come last.

    Ties are candidates whose objective's interval meets that of the best; of these the one that
    sends the fewest bits comes first, then by name.
    """
    able = [each for each in candidates if each.feasible and each.deployable and each.objective]
    order = sorted(able, key=_value)
    best = order[0].objective if order else None
    tied = [each for each in order if _meets(each.objective, best)]
    order = sorted(tied, key=_bits) + [each for each in order if each not in tied]
    placed = [
        replace(each, rank=place, tied=place > 1 and _meets(each.objective, best))
        for place, each in enumerate(order, start=1)
    ]
    return (*placed, *(each for each in candidates if each not in able))


def _value(candidate: Candidate) -> float:
    if candidate.objective is None:
        raise InvalidInput(f"{candidate.name} has no objective to be ranked by.")
    return candidate.objective.value


def _bits(candidate: Candidate) -> tuple[float, str]:
    bits = math.inf if candidate.costs is None else candidate.costs.protected.bits
    return bits, candidate.name


def _meets(one: Estimate | None, other: Estimate | None) -> bool:
    return one is not None and other is not None and one.low <= other.high
