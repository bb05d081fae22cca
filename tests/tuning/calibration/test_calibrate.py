from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from benchmarks.comparing.simulated_attackers import CURVES, WIDE, SimulatedAttacker
from scipy import stats
from scipy.stats import binom
from tests.tuning.calibration.calibrating import ALPHA, P_MAX, WORKS, AttackUnits, calibrated
from tests.tuning.simulating import answered

from trilemma.beliefs.intervals import clopper_pearson
from trilemma.errors import InvalidInput
from trilemma.tuning.calibration.calibrate import calibrate
from trilemma.tuning.calibration.outcomes import (
    UNPROTECTED,
    Calibration,
    Control,
    Tested,
)
from trilemma.tuning.calibration.sequential_test import (
    SequentialTest,
    fixed_size,
)

P_WIDE = 0.258  # of 38 candidates at leakage .3


@dataclass(frozen=True)
class Simulation:
    """Many calibrations of one simulated attacker, its middle off the warm start by up to 2x."""

    violations: int
    over_protection: list[float]
    units: list[int]


"""The games won of so many at a strength, in a stage, from a number on."""


def simulate(curve: str, p_max: float, runs: int, seed: int = 0) -> Simulation:
    row = [seed, (*CURVES, WIDE).index(curve), (*P_MAX, P_WIDE).index(p_max)]
    generator = np.random.default_rng(row)
    violations, over_protection, units = 0, [], []
    for _ in range(runs):
        attacker = SimulatedAttacker(curve, p_max, generator.uniform(-0.3, 0.3))
        result = attacker.play(calibrate(p_max, alpha=ALPHA, control=WORKS), generator)
        units.append(result.units)
        if result.strength is not None:
            violations += attacker.success(result.strength) > p_max
            over_protection.append(10 ** (result.strength - attacker.weakest))
    return Simulation(violations, over_protection, units)


def grid_units(attacker: SimulatedAttacker) -> int:
    """20 strengths, each tested at α/20 with the power of ours, knowing how steep the curve is."""
    alternative = float(stats.norm.cdf(stats.norm.ppf(attacker.p_max) - 0.1 / attacker.sd))
    size, _ = fixed_size(attacker.p_max, ALPHA / 20, alternative, 8000)
    return 20 * size


def check(curve: str, p_max: float, runs: int) -> None:
    outcome = simulate(curve, p_max, runs)
    # The one-sided 95 % lower limit of the violation rate.
    assert clopper_pearson(outcome.violations, runs, 0.9).low <= ALPHA
    if curve in ("steep", "moderate"):
        assert len(outcome.over_protection) >= 0.98 * runs
        assert np.median(outcome.over_protection) <= 1.5
        grid = grid_units(SimulatedAttacker(curve, p_max))
        assert np.mean(outcome.units) <= grid / 4


@pytest.mark.parametrize("p_max", P_MAX)
@pytest.mark.parametrize("curve", CURVES)
def test_the_budget_holds_and_the_price_is_low(curve: str, p_max: float) -> None:
    check(curve, p_max, runs=40)


@pytest.mark.slow
@pytest.mark.parametrize("p_max", P_MAX)
@pytest.mark.parametrize("curve", CURVES)
def test_the_budget_holds_and_the_price_is_low_in_2000_runs(curve: str, p_max: float) -> None:
    check(curve, p_max, runs=2000)


@pytest.mark.parametrize("runs", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_games_follow_the_curve(runs: int) -> None:
    """Where success falls from .37 to .13 over two decades, many; steep curves need few."""
    wide = simulate(WIDE, P_WIDE, runs)
    assert clopper_pearson(wide.violations, runs, 0.9).low <= ALPHA
    assert len(wide.over_protection) >= 0.95 * runs
    assert np.median(wide.over_protection) <= 2.5
    assert np.median(wide.units) <= 3000
    assert np.median(simulate("steep", 0.286, runs).units) <= 66


def test_what_no_strength_can_stop_costs_few_games() -> None:
    """Half of all games are won at every strength, where a quarter is allowed."""
    draw = np.random.default_rng(2)
    found = [
        answered(
            calibrate(P_WIDE, WORKS, alpha=ALPHA),
            lambda some: [int(draw.binomial(item.units, 0.5)) for item in some],
        )
        for _ in range(20)
    ]
    assert all(item.strength is None for item in found)
    assert np.mean([item.units for item in found]) < 200


def cliff(edge: float, high: float = 1.0, low: float = 0.0) -> AttackUnits:
    """Exactly the share `high` of the units falls below the edge, `low` from it on."""

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return round((high if x < edge else low) * count)

    return attack


def test_a_cliff_is_found_to_a_step_of_the_lattice() -> None:
    for edge in (-1.5, -0.4, 0.0, 0.7, 1.6):
        result = calibrated(cliff(edge), 0.286, control=WORKS)
        assert result.strength is not None
        assert edge <= result.strength <= edge + 0.15


def test_the_result_is_a_strength_exactly_as_it_passed_with_fresh_units() -> None:
    attacker = SimulatedAttacker("moderate", 0.286)
    result = attacker.play(calibrate(0.286, WORKS), np.random.default_rng(1))
    passed = [point for point in result.tested if point.passed]
    assert result.strength == passed[-1].strength
    # An exact test: so few wins, or fewer, were as rare as its level at a rate of p_max.
    level = passed[-1].level
    assert level is not None
    assert binom.cdf(passed[-1].recovered, passed[-1].units, 0.286) <= level
    assert result.units == sum(point.units for point in result.points)
    explored = {point.stage for point in result.points if point.passed is None}
    assert explored == {"explore"}


Journal = dict[int, tuple[float, str, int, int]]


def journalled(attack: AttackUnits, journal: Journal, stop_after: int) -> AttackUnits:
    """Answers from the journal where it can, and dies after so many new requests."""
    fresh = 0

    def units(x: float, count: int, stage: str, first_unit: int) -> int:
        nonlocal fresh
        if first_unit not in journal:
            if fresh == stop_after:
                raise KeyboardInterrupt
            fresh += 1
            successes = attack(x, count, stage, first_unit)
            journal[first_unit] = (x, stage, count, successes)
        assert journal[first_unit][:3] == (x, stage, count), "a replay asks for the same units"
        return journal[first_unit][3]

    return units


def test_an_interrupted_run_replays_to_the_same_result() -> None:
    attacker = SimulatedAttacker("moderate", 0.286, 0.1)

    def by_unit(x: float, count: int, stage: str, first_unit: int) -> int:
        draws = np.random.default_rng([7, first_unit]).random(count)
        return int((draws < attacker.success(x)).sum())

    whole = calibrated(by_unit, 0.286, WORKS)
    journal: Journal = {}
    result: Calibration | None = None
    interrupts = 0
    while result is None:
        try:
            result = calibrated(journalled(by_unit, journal, stop_after=3), 0.286, WORKS)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts > 2
    assert result == whole
    # Units are numbered without a gap, and none is asked for twice.
    ends = [first + entry[2] for first, entry in sorted(journal.items())]
    assert [0, *ends[:-1]] == sorted(journal)
    assert ends[-1] == whole.units


def test_no_protection_is_the_answer_where_it_is_enough() -> None:
    attack = cliff(math.inf, high=0.25)
    result = calibrated(attack, 0.559, Control(6, 24))
    assert result.strength == UNPROTECTED
    assert "no protection" in result.reason
    bounded = calibrated(attack, 0.559, Control(6, 24), domain=(-0.5, 0.5), unprotected=False)
    assert bounded.strength is not None
    assert -0.5 <= bounded.strength <= 0.5


def test_an_attack_that_wins_nothing_is_tested_without_protection_at_once() -> None:
    result = calibrated(cliff(math.inf, high=0.0), 0.212, Control(0, 16))
    assert result.strength == UNPROTECTED
    assert [point.stage for point in result.points] == ["walk"]


def test_luck_without_protection_costs_one_test_and_then_the_search_begins() -> None:
    """One of 16 control games was won, though half of them are: the test says so."""
    result = calibrated(cliff(0.2, high=0.5), 0.286, Control(1, 16))
    assert result.strength is not None
    assert 0.2 <= result.strength < 0.8
    first, second, *_ = result.points
    assert (first.strength, first.passed) == (UNPROTECTED, False)
    assert second.stage == "explore"


def test_an_attack_with_a_ceiling_is_still_calibrated() -> None:
    generator, results = np.random.default_rng(5), []
    full = SimulatedAttacker("moderate", 0.286)

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return int(generator.binomial(count, 0.6 * full.success(x)))

    for _ in range(20):
        result = calibrated(attack, 0.286, Control(14, 24))
        assert result.strength is not None
        results.append(result.strength)
    weakest = -full.sd * float(stats.norm.ppf(0.286 / 0.6))
    assert 1 <= 10 ** (np.median(results) - weakest) <= 1.5


def test_a_budget_out_of_reach_says_what_it_would_take() -> None:
    # At 2 % a test of p_max = .025 needs thousands of games: not passed, but not hopeless.
    generator = np.random.default_rng(3)
    outcomes = [
        SimulatedAttacker("plateau", 0.025).play(calibrate(0.025, WORKS), generator)
        for _ in range(20)
    ]
    short = [outcome for outcome in outcomes if outcome.strength is None]
    assert short
    told = [re.search(r"about (\d+) games", item.reason) for item in short]
    wanted = [int(item[1]) for item in told if item is not None]
    assert wanted
    assert min(wanted) > 118  # what no success at all would need
    assert all(item.smallest_upper_limit is not None for item in short)


def test_a_curve_that_rises_again_is_reported() -> None:
    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        if 0.0 <= x < 1.9:  # a shelf above the budget, and no protection at all beyond it
            return round(0.3 * count)
        return count

    result = calibrated(attack, P_WIDE, control=WORKS)
    assert result.non_monotone is not None
    weaker, stronger = result.non_monotone
    assert weaker < 1.9 <= stronger
    assert "not monotone" in result.reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrated(cliff(0), 0.0, WORKS), "p_max"),
        (lambda: calibrated(cliff(0), 0.3, WORKS, alpha=1.0), "alpha"),
        (lambda: calibrated(cliff(0), 0.3, WORKS, domain=(1.0, 1.0)), "domain"),
        (lambda: calibrated(cliff(0), 0.3, WORKS, domain=(-math.inf, 1.0)), "domain"),
        (lambda: calibrated(cliff(0), 0.3, WORKS, domain=(0.3, 0.3 + 1e-9)), "domain"),
        (lambda: calibrated(cliff(0, high=1.5), 0.3, WORKS), "none to all are won"),
        (lambda: Control(3, 2), "3 of 2"),
        (lambda: Tested("", 0.0, 0, 0), "0 of 0"),
        (lambda: SimulatedAttacker("stepp", 0.3), "did you mean 'step'"),
        (lambda: SequentialTest(0.1, 0.05, (5,), (0,), (2,)), "last look"),
        (lambda: SequentialTest(0.1, 0.05, (5, 6), (0,), (1,)), "each look"),
    ],
)
def test_bad_values_are_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
