"""Curves: which points a tuning measures to show how leakage and costs go with the strength."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.cli.own_scenario import small
from tests.tuning.pareto.evaluators import evaluator, family
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import Simulated, runner

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.game.estimates import client_leakage
from trilemma.game.jobs import AttackJob, CostJob, Job
from trilemma.tuning.pareto.family_curves import curves, grid, in_order, possible_curves
from trilemma.tuning.pareto.point_evaluator import PointEvaluator
from trilemma.tuning.plan import Plan
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.points import Point

NAMES = ("randomization", "secret-sharing", "paillier", "bounded-masks")


@pytest.fixture(scope="module")
def usual() -> PointEvaluator:
    return evaluator(families=NAMES, strengths=4)


def found(name: str, parameter: float | None = None) -> Candidate:
    return replace(candidate(name, 0.1), strength=parameter, protection="x")


def test_a_grid_lies_around_the_strength_found(usual: PointEvaluator) -> None:
    noise = family(usual, "randomization")
    middle = 0.3 * noise.domain[0]
    xs = grid(noise, found("randomization", noise.strength(middle)), 5)
    assert len(xs) == 5
    assert np.allclose(np.diff(xs, 2), 0)
    assert xs[0] == pytest.approx(middle - 1.5)
    assert xs[-1] == pytest.approx(min(noise.domain[1], middle + 0.5))


def test_a_grid_stays_where_the_mechanism_can_go(usual: PointEvaluator) -> None:
    noise = family(usual, "randomization")
    for x in noise.domain:
        xs = grid(noise, found("randomization", noise.strength(x)), 4)
        assert noise.domain[0] - 1e-9 <= xs[0] < xs[-1] <= noise.domain[1] + 1e-9
    xs = grid(noise, found("randomization"), 4)
    assert (xs[0], xs[-1]) == noise.domain, "all of it where nothing was found"


def drawn(plan: Plan, *candidates: Candidate, done: list[Job] | None = None) -> list[Point]:
    return list(runner(Simulated(small, None, 1, 2, 0), done)(curves(plan, candidates)))


def test_which_points_are_measured(usual: PointEvaluator) -> None:
    parameter = family(usual, "randomization").strength(-0.5)
    tuned = [found("randomization", parameter), *(found(name) for name in NAMES[1:])]
    done: list[Job] = []
    points = drawn(usual.plan, *tuned, done=done)
    assert [point.family for point in points] == [
        *("none", *["randomization"] * 4, "randomization", "secret-sharing", "paillier")
    ]
    curve = points[1:6]
    assert curve[-1].strength == pytest.approx(parameter), "the test's own counts"
    rates = [item.recovered for item in curve[:-1]]
    assert rates == sorted(rates, reverse=True)
    games, priced = possible_curves(usual.plan)
    played = [item for item in done if isinstance(item, AttackJob)]
    assert {item.rounds for item in played} == set(games)
    assert sum(item.count for item in played) == sum(games.values())
    assert len({item.key for item in done if isinstance(item, CostJob)}) == priced + 1, "the key"


def test_a_family_without_costs_or_candidate_has_no_tested_point(usual: PointEvaluator) -> None:
    unpriced = replace(found("secret-sharing"), costs=None)
    assert [item.family for item in drawn(usual.plan, unpriced)] == ["none"]


def counted(family: str, place: float, right: int, games: int = 60) -> Point:
    shown = client_leakage(right, games, kappa=0.01)
    return Point(family, place, leakage=shown, units=games, recovered=right)


def test_leakages_of_one_curve_fall_with_strength_at_limits_for_all() -> None:
    """In any order, and only within a family; what was not counted stays as it is."""
    bare = Point("none", None, leakage=client_leakage(60, 60, kappa=0.01), units=60, recovered=60)
    curve = [counted("a", place, right) for place, right in ((0.9, 9), (0.1, 30), (0.5, 7))]
    other = counted("b", 0.3, 50)
    key = Point("c", 0.5)
    made = in_order([bare, *curve, other, key], 0.95, 0.01)
    assert (made[0], made[5]) == (bare, key)
    strong, weak, middle = (item.leakage for item in made[1:4])
    assert strong is not None
    assert middle is not None
    assert weak is not None
    for end in ("value", "low", "high"):
        assert getattr(weak, end) >= getattr(middle, end) >= getattr(strong, end)
    assert middle.value == strong.value == bernoulli_leakage(9 / 60, 0.01)
    ends = binomtest(7, 60).proportion_ci(1 - 0.05 / 4, method="exact")
    assert strong.high == pytest.approx(bernoulli_leakage(ends.high, 0.01)), "the middle one's"
    assert not any(item.note for item in made)
    assert made[4].leakage is not None
    alone = binomtest(50, 60).proportion_ci(1 - 0.05 / 4, method="exact")
    assert made[4].leakage.high == pytest.approx(bernoulli_leakage(alone.high, 0.01))


def test_limits_that_cross_are_noted() -> None:
    weak, strong = in_order([counted("a", 0.1, 3), counted("a", 0.9, 50)], 0.95, 0.01)
    assert weak.note == strong.note
    assert weak.note.startswith("Its limits cross: a stronger setting was broken more often")
    assert weak.leakage is not None
    assert weak.leakage.low > weak.leakage.high
