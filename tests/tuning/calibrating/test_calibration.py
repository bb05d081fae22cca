from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from trilemma.beliefs.intervals import clopper_pearson
from trilemma.errors import InvalidInput
from trilemma.testing.simulated import CURVES, SimulatedAttacker
from trilemma.tuning.calibrating.acceptance import (
    SequentialTest,
    exact_operation,
    fixed_size,
    sequential_test,
)
from trilemma.tuning.calibrating.calibration import calibrate
from trilemma.tuning.calibrating.outcomes import (
    UNPROTECTED,
    AttackUnits,
    Calibration,
    Control,
    Outcome,
    TestedStrength,
    non_monotone,
)
from trilemma.tuning.calibrating.success_curve import SuccessCurve

ALPHA = 0.05
P_MAX = (0.02, 0.078, 0.286, 0.559)  # leakage .1, .2, .4, .6
WORKS = Control(24, 24)


@dataclass(frozen=True)
class Simulation:
    """Many calibrations of one simulated attacker, its middle off the warm start by up to 2x."""

    violations: int
    over_protection: list[float]
    units: list[int]


def simulate(curve: str, p_max: float, runs: int, seed: int = 0) -> Simulation:
    generator = np.random.default_rng([seed, CURVES.index(curve), P_MAX.index(p_max)])
    violations, over_protection, units = 0, [], []
    for _ in range(runs):
        attacker = SimulatedAttacker(curve, p_max, generator.uniform(-0.3, 0.3))
        result = calibrate(attacker.units(generator), p_max, alpha=ALPHA, control=WORKS)
        units.append(result.units)
        if result.x is not None:
            violations += attacker.success(result.x) > p_max
            over_protection.append(10 ** (result.x - attacker.weakest))
    return Simulation(violations, over_protection, units)


def grid_units(attacker: SimulatedAttacker) -> int:
    """20 strengths, each tested at α/20 with the power of ours, knowing the slope of the curve."""
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
        assert np.mean(outcome.units) <= grid / 5


@pytest.mark.parametrize("p_max", P_MAX)
@pytest.mark.parametrize("curve", CURVES)
def test_the_budget_holds_and_the_price_is_low(curve: str, p_max: float) -> None:
    check(curve, p_max, runs=40)


@pytest.mark.slow
@pytest.mark.parametrize("p_max", P_MAX)
@pytest.mark.parametrize("curve", CURVES)
def test_the_budget_holds_and_the_price_is_low_in_2000_runs(curve: str, p_max: float) -> None:
    check(curve, p_max, runs=2000)


def cliff(edge: float, high: float = 1.0, low: float = 0.0) -> AttackUnits:
    """Exactly the share `high` of the units falls below the edge, `low` from it on."""

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return round((high if x < edge else low) * count)

    return attack


def test_a_cliff_is_found_to_a_step_of_the_lattice() -> None:
    for edge in (-1.5, -0.4, 0.0, 0.7, 1.6):
        result = calibrate(cliff(edge), 0.286, control=WORKS)
        assert result.outcome is Outcome.CERTIFIED
        assert result.x is not None
        assert edge <= result.x <= edge + 0.15


def test_the_result_is_a_strength_exactly_as_it_passed_with_fresh_units() -> None:
    attacker = SimulatedAttacker("moderate", 0.286)
    result = calibrate(attacker.units(np.random.default_rng(1)), 0.286)
    passed = [point for point in result.tested if point.passed]
    assert result.x == passed[-1].x
    assert passed[-1].allowed is not None
    assert passed[-1].successes <= passed[-1].allowed
    assert result.pointwise_interval == clopper_pearson(passed[-1].successes, passed[-1].units)
    assert result.units == sum(point.units for point in result.points)
    assert {point.stage for point in result.explored} == {"control", "explore"}
    assert result.curve is not None
    assert result.curve.mu == pytest.approx(0.0, abs=0.4)


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
            successes = int(np.sum(attack(x, count, stage, first_unit)))
            journal[first_unit] = (x, stage, count, successes)
        assert journal[first_unit][:3] == (x, stage, count), "a replay asks for the same units"
        return journal[first_unit][3]

    return units


def test_an_interrupted_run_replays_to_the_same_result() -> None:
    attacker = SimulatedAttacker("moderate", 0.286, 0.1)

    def by_unit(x: float, count: int, stage: str, first_unit: int) -> int:
        draws = np.random.default_rng([7, first_unit]).random(count)
        return int((draws < attacker.success(x)).sum())

    whole = calibrate(by_unit, 0.286)
    journal: Journal = {}
    result: Calibration | None = None
    interrupts = 0
    while result is None:
        try:
            result = calibrate(journalled(by_unit, journal, stop_after=3), 0.286)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts > 2
    assert result == whole
    # Units are numbered without a gap, and none is asked for twice.
    ends = [first + entry[2] for first, entry in sorted(journal.items())]
    assert [0, *ends[:-1]] == sorted(journal)
    assert ends[-1] == whole.units


def test_truth_values_are_as_good_as_a_count() -> None:
    def bools(x: float, count: int, stage: str, first_unit: int) -> list[bool]:
        return [x < 0.2] * count

    assert calibrate(bools, 0.286) == calibrate(cliff(0.2), 0.286)


def test_an_attack_that_fails_without_protection_gives_no_verdict() -> None:
    result = calibrate(cliff(-math.inf), 0.286)
    assert result.outcome is Outcome.ATTACK_FAILED
    assert result.x is None
    assert result.units == 24
    assert "attack failed here" in result.reason
    assert calibrate(cliff(0.0), 0.286, control=Control(2, 24)).units == 0


def test_no_protection_is_the_answer_where_it_is_enough() -> None:
    attack = cliff(math.inf, high=0.25)
    result = calibrate(attack, 0.559)
    assert result.outcome is Outcome.CERTIFIED
    assert result.x == UNPROTECTED
    assert "no protection" in result.reason
    bounded = calibrate(attack, 0.559, domain=(-0.5, 0.5), unprotected=False)
    assert bounded.x is not None
    assert -0.5 <= bounded.x <= 0.5


def test_an_attack_with_a_ceiling_is_still_calibrated() -> None:
    generator, results = np.random.default_rng(5), []
    full = SimulatedAttacker("moderate", 0.286)

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return int(generator.binomial(count, 0.6 * full.success(x)))

    for _ in range(20):
        result = calibrate(attack, 0.286)
        assert result.x is not None
        results.append(result.x)
    weakest = -full.sd * float(stats.norm.ppf(0.286 / 0.6))
    assert 1 <= 10 ** (np.median(results) - weakest) <= 1.5


def test_no_request_leaves_the_domain() -> None:
    asked: list[float] = []

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        asked.append(x)
        return count  # nothing helps

    result = calibrate(attack, 0.286, domain=(-0.31, 0.47))
    protected = [x for x in asked if x != UNPROTECTED]
    assert min(protected) >= -0.31
    assert max(protected) == 0.47
    assert result.outcome is Outcome.NOT_CERTIFIED
    assert result.x is None
    assert result.units_needed is None
    assert result.smallest_upper_limit == 1.0
    assert "more units would not help" in result.reason


def test_a_budget_out_of_reach_says_what_it_would_take() -> None:
    # At 2 % a test of p_max = .025 needs thousands of units: not certified, but not hopeless.
    generator = np.random.default_rng(3)
    outcomes = [
        calibrate(SimulatedAttacker("plateau", 0.025).units(generator), 0.025, control=WORKS)
        for _ in range(20)
    ]
    short = [each for each in outcomes if each.outcome is Outcome.NOT_CERTIFIED]
    assert short
    wanted = [each.units_needed for each in short if each.units_needed is not None]
    assert wanted
    assert min(wanted) > 118  # what no success at all would need
    assert all(each.smallest_upper_limit is not None for each in short)
    assert any("would be needed" in each.reason for each in short)


def test_no_more_units_are_used_than_allowed() -> None:
    attacker = SimulatedAttacker("plateau", 0.02)  # out of reach: would take thousands
    for max_units in (100, 400, 1500):
        attack = attacker.units(np.random.default_rng(4))
        result = calibrate(attack, 0.02, control=WORKS, max_units=max_units)
        assert result.units <= max_units
        assert result.outcome is Outcome.NOT_CERTIFIED


def test_a_failed_start_falls_back_to_a_stronger_setting_at_a_stricter_level() -> None:
    walked: set[float] = set()

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        if stage == "walk":
            walked.add(x)
            return count
        return 0 if x >= 0.1 else count

    result = calibrate(attack, 0.286, control=WORKS)
    assert result.outcome is Outcome.CERTIFIED
    first, second = result.tested[:2]
    assert (first.stage, first.passed, second.stage) == ("walk", False, "fallback 1")
    assert second.x > first.x
    assert first.level == pytest.approx(0.8 * ALPHA)
    assert second.level == pytest.approx(0.1 * ALPHA)
    assert len(walked) == 1


def test_the_levels_of_all_chains_add_up_to_less_than_alpha() -> None:
    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return round(0.4 * count) if stage != "explore" else int(x < 0) * count

    result = calibrate(attack, 0.286, control=WORKS, domain=(-2.0, 4.0))
    assert len(result.tested) > 2
    assert not any(point.passed for point in result.tested)
    assert sum(point.level for point in result.tested if point.level is not None) < ALPHA


def test_a_curve_that_rises_again_is_reported() -> None:
    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        if 0.0 <= x < 1.3:  # a shelf just above the budget, and no protection at all beyond it
            return round(0.1 * count)
        return count

    result = calibrate(attack, 0.078, control=WORKS)
    assert result.non_monotone is not None
    weaker, stronger = result.non_monotone
    assert weaker < 1.3 <= stronger
    assert "not monotone" in result.reason


def test_only_a_significant_rise_counts() -> None:
    falling = [TestedStrength(x, 40, s, "explore") for x, s in ((0.0, 39), (0.5, 20), (1.0, 1))]
    assert non_monotone(falling) is None
    assert non_monotone([*falling, TestedStrength(1.5, 40, 3, "walk")]) is None
    assert non_monotone([*falling, TestedStrength(1.5, 40, 30, "walk")]) == (1.0, 1.5)
    # Neighbours are pooled: six units each would show nothing.
    scattered = [TestedStrength(x / 10, 6, 0, "explore") for x in range(6)]
    scattered += [TestedStrength(1 + x / 10, 6, 4, "explore") for x in range(6)]
    found = non_monotone(scattered)
    assert found is not None
    assert found[0] <= 0.5 < 1.0 <= found[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(cliff(0), 0.0), "p_max"),
        (lambda: calibrate(cliff(0), 0.3, alpha=1.0), "alpha"),
        (lambda: calibrate(cliff(0), 0.3, domain=(1.0, 1.0)), "domain"),
        (lambda: calibrate(cliff(0), 0.3, domain=(-math.inf, 1.0)), "domain"),
        (lambda: calibrate(cliff(0, high=1.5), 0.3), "attack_units"),
        (lambda: calibrate(lambda x, count, stage, first_unit: [True], 0.3), "attack_units"),
        (lambda: Control(3, 2), "3 of 2"),
        (lambda: TestedStrength(0.0, 0, 0, "walk"), "0 of 0"),
        (lambda: Calibration(Outcome.CERTIFIED, 0.3, 0.05, None, (), 0, ""), "exactly when"),
        (lambda: SimulatedAttacker("stepp", 0.3), "did you mean 'step'"),
        (lambda: SequentialTest(0.1, 0.05, (5,), (0,), (2,)), "last look"),
        (lambda: SequentialTest(0.1, 0.05, (5, 6), (0,), (1,)), "each look"),
    ],
)
def test_bad_values_are_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_the_exact_level_agrees_with_every_path() -> None:
    test = sequential_test(0.559, 0.04, 0.8, 20)
    length = test.looks[-1]
    assert length <= 20
    for rate in (0.559, 0.2):
        passed = units = 0.0
        # Successes between looks are binomial: enumerate them, look by look.
        sizes = np.diff((0, *test.looks))
        for path in itertools.product(*(range(size + 1) for size in sizes)):
            weight = math.prod(
                float(stats.binom.pmf(k, size, rate)) for k, size in zip(path, sizes, strict=True)
            )
            for look, total in enumerate(itertools.accumulate(path)):
                decision = test.decide(look, total)
                if decision is not None:
                    units += weight * test.looks[look]
                    passed += weight * (decision == "pass")
                    break
        exact = exact_operation(test, np.array([rate]))
        assert exact[0][0] == pytest.approx(passed)
        assert exact[1][0] == pytest.approx(units)


@pytest.mark.parametrize("p_max", [0.005, *P_MAX, 0.9])
@pytest.mark.parametrize("level", [0.04, 0.005, 0.0006])
@pytest.mark.parametrize("separation", [0.2, 0.57, 1.6])
def test_a_sequential_test_keeps_its_level_and_beats_the_fixed_size(
    p_max: float, level: float, separation: float
) -> None:
    test = sequential_test(p_max, level, separation, 1500)
    rates = np.linspace(p_max, 1, 20)
    chance, _ = exact_operation(test, rates)
    assert chance[0] <= level
    assert (np.diff(chance) <= 1e-12).all()
    alternative = float(stats.norm.cdf(stats.norm.ppf(p_max) - separation))
    size, c = fixed_size(p_max, level, alternative, 1500)
    assert stats.binom.cdf(c, size, p_max) <= level
    _, units = exact_operation(test, np.array([p_max, alternative]))
    assert units[0] <= max(size, 12)


def test_the_posterior_agrees_with_bayes_by_hand() -> None:
    curve = SuccessCurve.prior(-0.5, 0.5)
    place = 14
    x = curve.strengths[place]
    after = curve.observe(place, 10, 3)
    grid = curve.grid
    table = grid.floor[:, None] + (1 - grid.floor[:, None]) * stats.norm.cdf(
        (grid.mu[None, :] - x) / grid.sd[:, None]
    )
    by_hand = np.exp(grid.log_prior) * stats.binom.pmf(3, 10, np.clip(table, 1e-4, 1 - 1e-3))
    by_hand /= by_hand.sum()
    assert after.weights == pytest.approx(by_hand, abs=1e-12)
    assert after.expect()[place] == pytest.approx(float((by_hand * table).sum()), abs=1e-4)
    squares = after.expect(np.square)[place]
    assert squares == pytest.approx(float((by_hand * table**2).sum()), abs=1e-4)
    assert (np.diff(after.expect()) < 0).all()


def test_a_well_measured_curve_is_known() -> None:
    curve, truth = SuccessCurve.prior(-2.0, 2.0), SimulatedAttacker("moderate", 0.286, 0.3)
    for place, x in enumerate(curve.strengths):
        curve = curve.observe(place, 400, round(400 * truth.success(float(x))))
    summary = curve.summary()
    assert summary.mu == pytest.approx(0.3, abs=0.03)
    assert summary.sd == pytest.approx(truth.sd, abs=0.03)
    assert summary.floor == pytest.approx(0.0, abs=0.002)
    mean, sd = curve.crossing(0.286)
    assert mean == pytest.approx(truth.weakest, abs=0.04)
    assert sd < 0.03
