"""Curves: which points a tuning measures to show how leakage and costs go with the strength."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cli.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.pareto.test_point_evaluator import family, meter
from tests.tuning.simulating import Simulated, runner

from trilemma.game.jobs import AttackJob, CostJob, Job
from trilemma.tuning.pareto.family_curves import curves, grid, possible_curves
from trilemma.tuning.pareto.point_evaluator import Meter
from trilemma.tuning.plan import Plan
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.points import Point

NAMES = ("randomization", "secret-sharing", "paillier", "bounded-masks")


@pytest.fixture(scope="module")
def usual() -> Meter:
    return meter(families=NAMES, strengths=4)


def found(name: str, parameter: float | None = None) -> Candidate:
    return replace(candidate(name, 0.1), strength=parameter, protection="x")


def test_a_grid_lies_around_the_strength_found(usual: Meter) -> None:
    noise = family(usual, "randomization")
    middle = 0.3 * noise.domain[0]
    xs = grid(noise, found("randomization", noise.strength(middle)), 5)
    assert len(xs) == 5
    assert np.allclose(np.diff(xs, 2), 0)
    assert xs[0] == pytest.approx(middle - 1.5)
    assert xs[-1] == pytest.approx(min(noise.domain[1], middle + 0.5))


def test_a_grid_stays_where_the_mechanism_can_go(usual: Meter) -> None:
    noise = family(usual, "randomization")
    for x in noise.domain:
        xs = grid(noise, found("randomization", noise.strength(x)), 4)
        assert noise.domain[0] - 1e-9 <= xs[0] < xs[-1] <= noise.domain[1] + 1e-9
    xs = grid(noise, found("randomization"), 4)
    assert (xs[0], xs[-1]) == noise.domain, "all of it where nothing was found"


def drawn(plan: Plan, *candidates: Candidate, done: list[Job] | None = None) -> list[Point]:
    return list(runner(Simulated(small, None, 1, 2, 0), done)(curves(plan, candidates)))


def test_which_points_are_measured(usual: Meter) -> None:
    parameter = family(usual, "randomization").strength(-0.5)
    tuned = [found("randomization", parameter), *(found(name) for name in NAMES[1:])]
    done: list[Job] = []
    points = drawn(usual.plan, *tuned, done=done)
    assert [each.family for each in points] == [
        *("none", *["randomization"] * 4, "randomization", "secret-sharing", "paillier")
    ]
    curve = points[1:6]
    assert curve[-1].strength == pytest.approx(parameter), "the test's own counts"
    rates = [each.recovered for each in curve[:-1]]
    assert rates == sorted(rates, reverse=True)
    games, priced = possible_curves(usual.plan)
    played = [each for each in done if isinstance(each, AttackJob)]
    assert {each.rounds for each in played} == set(games)
    assert sum(each.count for each in played) == sum(games.values())
    assert len({each.key for each in done if isinstance(each, CostJob)}) == priced + 1, "the key"


def test_a_family_without_costs_or_candidate_has_no_tested_point(usual: Meter) -> None:
    unpriced = replace(found("secret-sharing"), costs=None)
    assert [each.family for each in drawn(usual.plan, unpriced)] == ["none"]
