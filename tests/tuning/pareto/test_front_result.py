"""From points to a front: each place once, what has no costs left out, the knee on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.tuning.pareto.toy_points import toy

from trilemma.game.estimates import Estimate
from trilemma.tuning.pareto.front_geometry import hypervolume
from trilemma.tuning.pareto.front_result import REFERENCE, front_of
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.pareto_front import Front
from trilemma.tuning.results.points import Point

START = replace(toy("none", 0.0), place=None)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.of(small(), Request(attacks=("gaussian-posterior",), steps=2))


def front(plan: Plan, *found: Point) -> Front:
    return front_of(plan, START, found, sampler="grid", wanted=9)


def test_places_count_once_and_trials_all(plan: Plan) -> None:
    twice = toy("a", 0.5)
    found = front(plan, twice, twice, toy("b", 0.5))
    assert [(point.family, point.place) for point in found.points] == [
        ("none", None),
        ("a", 0.5),
        ("b", 0.5),
    ]
    assert (found.evaluations, found.wanted) == (3, 9)


def test_who_is_dominated_is_not_on_the_front(plan: Plan) -> None:
    found = front(plan, toy("a", 0.5), toy("b", 0.5), toy("a", 1.0))
    assert 2 not in found.front, "b loses a tenth more than a everywhere"
    best = [found.points[place].objectives for place in found.front]
    assert found.hypervolume == hypervolume([item for item in best if item], REFERENCE)
    assert found.knee == 1, "half way is nearest to both ends"


def test_what_has_no_costs_is_shown_and_not_on_the_front(plan: Plan) -> None:
    lost = Point("c", 0.5, leakage=Estimate(0.0, 0.0, 0.0), note="It diverged.")
    found = front(plan, lost)
    assert found.front == (0,)
    assert found.points[1].note == "It diverged."


def test_the_limits_are_those_of_an_estimate(plan: Plan) -> None:
    said = front(plan).limits
    assert "not a certificate" in said[0]
    assert said[-1].startswith("The server is the adversary")
