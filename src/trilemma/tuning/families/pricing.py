"""Choosing among protections that keep the budget: utility and cost, measured and weighed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from trilemma.errors import InvalidInput
from trilemma.game.costs import Costs, check_bandwidth, compare, fewest_rounds
from trilemma.game.estimates import Estimate
from trilemma.game.job_results import Diverged, converged
from trilemma.game.jobs import CostJob, TrainJob

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.recipe import Recipe
    from trilemma.protection.protection import Protection
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["Pricing", "priced", "ranked"]


@dataclass(frozen=True)
class Pricing:
    """How utility and cost are measured, alike for all protections."""

    problem: Problem
    rounds: int
    seeds: tuple[int, ...]
    bandwidth: float
    confidence: float

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def baseline(self, recipe: Recipe | None = None) -> list[TrainJob]:
        """The trainings without protection."""
        return [TrainJob("none", seed, self.rounds, recipe) for seed in self.seeds]

    def price(
        self,
        protection: Protection,
        *,
        recipe: Recipe | None = None,
        without: Recipe | None = None,
        best: Recipe | None = None,
    ) -> Procedure[tuple[Costs, Estimate]]:
        """Costs at the protection, and η_u·ε_u + η_e·ε_e; raises `Diverged` where it has none.

        The protected trainings follow `recipe`, those without protection `without` (None: the
        federation's own), and those of the best unprotected one `best`.
        """
        spec = protection.describe()
        within = [TrainJob(spec, seed, self.rounds, recipe) for seed in self.seeds]
        rivals = [] if best is None else self.baseline(best)
        trainings = [*self.baseline(without), *within, *rivals]
        timing = CostJob(spec, fewest_rounds(self.confidence), recipe)
        *histories, timed = converged((yield [*trainings, timing]))
        n = len(self.seeds)
        plain, shielded, freest = histories[:n], histories[n : 2 * n], histories[2 * n :]
        found = compare(
            protection.describe(),
            plain,
            shielded,
            timed,
            bandwidth=self.bandwidth,
            confidence=self.confidence,
            best=freest,
        )
        return found, self._objective(found)

    def _objective(self, costs: Costs) -> Estimate:
        """Of the estimates and of their ends: at most as certain as either of the two."""
        each_client = any(
            isinstance(weight, tuple)
            for weight in (self.problem.utility_weight, self.problem.efficiency_weight)
        )
        losses = costs.client_utility_loss if each_client else (costs.utility_loss,)

        def objective(end: Literal["value", "low", "high"]) -> float:
            lost: list[float] = [getattr(loss, end) for loss in losses]
            slower: float = getattr(costs.efficiency_reduction, end)
            return self.problem.objective(lost, [slower] * len(lost))

        return Estimate(objective("value"), objective("low"), objective("high"))


def priced(
    candidate: Candidate,
    protection: Protection,
    pricing: Pricing,
    *,
    recipe: Recipe | None = None,
    without: Recipe | None = None,
    best: Recipe | None = None,
) -> Procedure[Candidate]:
    """The candidate with its measured costs; one that diverges or breaks a cap is not feasible."""
    try:
        costs, objective = yield from pricing.price(
            protection, recipe=recipe, without=without, best=best
        )
    except Diverged as error:
        return replace(candidate, feasible=False, statement=f"{candidate.statement} But {error}")
    breach = pricing.problem.breach(
        costs.utility_loss.high,
        costs.efficiency_reduction.high,
        ("upper limit of the utility loss", "upper limit of the efficiency reduction"),
    )
    if breach:
        said = f"{candidate.statement} But {breach}"
        candidate = replace(candidate, feasible=False, statement=said)
    return replace(candidate, costs=costs, objective=objective)


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, the best first; those that cannot be chosen keep no rank and come last.

    Ties are candidates whose objective lies within the interval of the best; of these the one of
    the best metric, in hundredths, comes first, then that which sends the fewest bits, then by
    name. That two intervals meet is not enough: a
    candidate of which little is known would win over one that is five times as good.
    """
    able = [item for item in candidates if item.feasible and item.deployable and item.objective]
    order = sorted(able, key=_value)
    best = order[0].objective if order else None
    tied = [item for item in order if _ties(item.objective, best)]
    order = sorted(tied, key=_order) + [item for item in order if item not in tied]

    def other(candidate: Candidate) -> bool:
        """Whether it is not the very protection that comes first, under another name."""
        return candidate.protection is None or candidate.protection != order[0].protection

    placed = [
        replace(item, rank=place, tied=place > 1 and _ties(item.objective, best) and other(item))
        for place, item in enumerate(order, start=1)
    ]
    return (*placed, *(item for item in candidates if item not in able))


def _value(candidate: Candidate) -> float:
    if candidate.objective is None:
        raise InvalidInput(f"{candidate.name} has no objective to be ranked by.")
    return candidate.objective.value


def _order(candidate: Candidate) -> tuple[float, float, str]:
    if candidate.costs is None:
        return math.inf, math.inf, candidate.name
    reached = -round(candidate.costs.protected_metric, 2)
    return reached, candidate.costs.protected.bits, candidate.name


def _ties(one: Estimate | None, best: Estimate | None) -> bool:
    return one is not None and best is not None and one.value <= best.high
