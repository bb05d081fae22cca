"""How leakage and costs go with a family's strength: estimates, to be looked at.

A verdict's claim rests on its tests, at single strengths. A curve has few games, the same ones at
every strength, around the strength that was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.execution.scheduler import together
from trilemma.tuning.pareto.point_evaluator import Meter

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.points import Point

__all__ = ["CURVE_SEEDS", "curves", "grid", "possible_curves"]

_WEAKER, _STRONGER = 1.5, 0.5  # decades around the strength that was found
_UNITS: Final = 24  # at each strength
CURVE_SEEDS: Final = 3  # enough to see a trend; the choice is priced on all of them
_SHOWN: Final = ("randomization", "randomization+secret-sharing", "compression")


def curves(plan: Plan, candidates: Sequence[Candidate]) -> Procedure[tuple[Point, ...]]:
    """The points: no protection first, then each family from weak to strong.

    At the strength that was found, and of a bare sum, the test's own counts are taken. Families
    that look alike to the adversary have one curve between them.
    """
    meter = Meter(plan, _UNITS, CURVE_SEEDS)
    points = [meter.unprotected()]
    found = {each.name: each for each in candidates}
    for family in plan.families:
        candidate = found.get(family.name)
        if candidate is None or not family.deployable or plan.proves(family):
            continue
        if family.seen == "nothing":
            points.append(meter.point(family, 0.0))
        else:
            if _drawn(family):
                xs = grid(family, candidate, plan.request.strengths)
                points += [meter.point(family, family.place(x)) for x in xs]
            if candidate.costs is not None:
                points.append(_tested(meter, family, candidate))
    return tuple((yield from together(points)))


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


def _tested(meter: Meter, family: Family, candidate: Candidate) -> Procedure[Point]:
    yield from ()  # what its test has counted already
    return meter.tested(family, candidate)


def grid(family: Family, candidate: Candidate, count: int) -> tuple[float, ...]:
    """Strengths around the one that was found, or over the whole domain where none was."""
    low, high = family.domain
    if candidate.strength is not None:
        x = family.decades(candidate.strength)
        low, high = max(low, x - _WEAKER), min(high, x + _STRONGER)
    return tuple(np.linspace(low, high, count).tolist())
