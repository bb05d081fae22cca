"""Curves: which points a tuning measures to show how leakage and costs go with the strength."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.fronts.test_meter import family, meter
from tests.tuning.simulating import Simulated, asking

from trilemma.tuning.fronts.curves import curve_procedures, grid
from trilemma.tuning.fronts.meter import Meter
from trilemma.tuning.results.candidates import Candidate

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


def test_which_points_are_measured(usual: Meter) -> None:
    noise = family(usual, "randomization")
    parameter = noise.strength(-0.5)
    tuned = [found("randomization", parameter), *(found(name) for name in NAMES[1:])]
    wanted = curve_procedures(usual.plan, tuned)
    assert next(iter(wanted)) == "curve of none"
    names = [name.removeprefix("curve of ") for name in wanted]
    assert [name.partition(" at ")[0] for name in names] == [
        "none",
        *["randomization"] * 4,
        "randomization as tested",
        "secret-sharing",
        "paillier",
    ]
    ask = asking(Simulated(small, None, 1, 2, 0))
    points = [procedure(ask) for procedure in wanted.values()]
    curve = [each for each in points if each.family == "randomization"]
    assert curve[-1].strength == pytest.approx(parameter), "the test's own counts"
    rates = [each.recovered for each in curve[:-1]]
    assert rates == sorted(rates, reverse=True)


def test_a_family_without_costs_or_candidate_has_no_tested_point(usual: Meter) -> None:
    unpriced = replace(found("secret-sharing"), costs=None)
    assert list(curve_procedures(usual.plan, [unpriced])) == ["curve of none"]
