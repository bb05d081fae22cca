"""How leakage and costs go with a family's strength: estimates, to be looked at.

A verdict's claim rests on its tests, at single strengths. A curve has few games, the same ones at
every strength, around the strength that was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.beliefs.envelopes import envelopes
from trilemma.execution.scheduler import together
from trilemma.game.estimates import Estimate
from trilemma.tuning.pareto.point_evaluator import PointEvaluator

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.points import Point

__all__ = ["CURVE_SEEDS", "curves", "grid", "in_order", "possible_curves"]

_WEAKER, _STRONGER = 1.5, 0.5  # decades around the strength that was found
_UNITS: Final = 24  # at each strength
_CROSSED: Final = "Its limits cross: a stronger setting was broken more often than a weaker one."
CURVE_SEEDS: Final = 3  # enough to see a trend; the choice is priced on all of them
_SHOWN: Final = ("randomization", "randomization+secret-sharing", "compression")


def curves(plan: Plan, candidates: Sequence[Candidate]) -> Procedure[tuple[Point, ...]]:
    """The points: no protection first, then each family from weak to strong.

    At the strength that was found, and of a bare sum, its fresh games are taken. Families
    that look alike to the adversary have one curve between them.
    """
    evaluator = PointEvaluator(plan, _UNITS, CURVE_SEEDS)
    points = [evaluator.unprotected()]
    found = {item.name: item for item in candidates}
    for family in plan.families:
        candidate = found.get(family.name)
        if candidate is None or not family.deployable or plan.proves(family):
            continue
        if family.seen == "nothing":
            points.append(evaluator.point(family, 0.0))
        else:
            if _drawn(family):
                xs = grid(family, candidate, plan.request.strengths)
                points += [evaluator.point(family, family.place(x)) for x in xs]
            if candidate.costs is not None:
                points.append(_tested(evaluator, family, candidate))
    measured = yield from together(points)
    return in_order(measured, plan.request.confidence, plan.claim.kappa)


def in_order(points: Sequence[Point], confidence: float, kappa: float) -> tuple[Point, ...]:
    """The same points, whose leakages fall with strength within a family, at intervals for all.

    Intervals are the envelopes of all points, and a rate is the largest at this strength or a
    greater one. Where limits cross, the family's success does not fall with strength: it is noted.
    """
    counted = [place for place, item in enumerate(points) if item.units and item.place is not None]
    made = list(points)
    for family in dict.fromkeys(points[place].family for place in counted):
        own = [place for place in counted if points[place].family == family]
        own.sort(key=lambda place: points[place].place or 0.0)
        won = np.array([[points[place].recovered for place in own]])
        games = np.array([[points[place].units for place in own]])
        sure = 1 - (1 - confidence) * len(own) / len(counted)
        lower, upper, crossed = (
            envelope[0] for envelope in envelopes(won, games, confidence=sure)
        )
        rates = np.maximum.accumulate((won / games)[0, ::-1])[::-1]
        values = np.clip(rates, np.minimum(lower, upper), np.maximum(lower, upper))
        for place, value, low, high, apart in zip(own, values, lower, upper, crossed, strict=True):
            point = points[place]
            ends = (bernoulli_leakage(float(end), kappa) for end in (value, low, high))
            note = f"{point.note} {_CROSSED}".strip() if apart else point.note
            made[place] = replace(point, leakage=Estimate(*ends), note=note)
    return tuple(made)


def possible_curves(plan: Plan) -> tuple[dict[int, int], int]:
    """The games of the leading attack, by rounds, and the points that are priced, at most."""
    drawn = [
        family
        for family in plan.families
        if family.deployable and _drawn(family) and not plan.proves(family)
    ]
    games = {plan.claim.rounds: _UNITS}
    for family in drawn:
        rounds = plan.claim.rounds if family.whole_training else 1
        games[rounds] = games.get(rounds, 0) + _UNITS * plan.request.strengths
    return games, 1 + plan.request.strengths * len(drawn)


def _drawn(family: Family) -> bool:
    return family.mechanism is not None and family.name in _SHOWN


def _tested(evaluator: PointEvaluator, family: Family, candidate: Candidate) -> Procedure[Point]:
    yield from ()  # what was counted already
    return evaluator.tested(family, candidate)


def grid(family: Family, candidate: Candidate, count: int) -> tuple[float, ...]:
    """Strengths around the one that was found, or over the whole domain where none was."""
    low, high = family.domain
    if candidate.strength is not None:
        x = family.decades(candidate.strength)
        low, high = max(low, x - _WEAKER), min(high, x + _STRONGER)
    return tuple(np.linspace(low, high, count).tolist())
