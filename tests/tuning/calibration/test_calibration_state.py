"""A search keeps to its domain, its units and its level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.tuning.calibration.calibrating import ALPHA, WORKS, calibrated
from tests.tuning.simulating import answered

from trilemma.tuning.calibration.calibrate import crossing
from trilemma.tuning.calibration.outcomes import UNPROTECTED, Trial
from trilemma.tuning.calibration.success_curve import SuccessCurve


def test_no_request_leaves_the_domain() -> None:
    asked: list[float] = []

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        asked.append(x)
        return count  # nothing helps

    result = calibrated(attack, 0.286, WORKS, domain=(-0.31, 0.47))
    protected = [x for x in asked if x != UNPROTECTED]
    assert min(protected) >= -0.31
    assert max(protected) == 0.47
    assert result.strength is None
    assert result.smallest_upper_limit == 1.0
    assert "more games would not help" in result.reason


def test_a_failed_start_falls_back_to_a_stronger_setting_at_a_stricter_level() -> None:
    walked: set[float] = set()

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        if stage == "walk":
            walked.add(x)
            return count
        return 0 if x >= 0.1 else count

    result = calibrated(attack, 0.286, control=WORKS)
    assert result.strength is not None
    first, second = result.tested[:2]
    assert (first.stage, first.passed, second.stage) == ("walk", False, "fallback 1")
    assert first.strength is not None
    assert second.strength is not None
    assert second.strength > first.strength
    assert first.level == pytest.approx(0.8 * ALPHA)
    assert second.level == pytest.approx(0.1 * ALPHA)
    assert len(walked) == 1


def test_the_levels_of_all_chains_add_up_to_less_than_alpha() -> None:
    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        return round(0.4 * count) if stage != "explore" else int(x < 0) * count

    result = calibrated(attack, 0.286, control=WORKS, domain=(-2.0, 4.0))
    assert len(result.tested) > 2
    assert not any(point.passed for point in result.tested)
    assert sum(point.level for point in result.tested if point.level is not None) < ALPHA


def explored(*answers: int) -> list[tuple[float, int, int]]:
    """(x, count, first unit) of the first requests of a calibration that hears these answers."""
    asked: list[tuple[float, int, int]] = []

    class Enough(Exception):
        pass

    def attack(strength: float, count: int, stage: str, first_unit: int) -> int:
        asked.append((strength, count, first_unit))
        if len(asked) > len(answers):
            raise Enough
        return answers[len(asked) - 1]

    with pytest.raises(Enough):
        calibrated(attack, 0.258, WORKS, alpha=ALPHA)
    return asked


def test_exploration_goes_in_pairs_of_which_neither_waits_for_the_other() -> None:
    many, few = explored(6, 0, 6, 0), explored(0, 0, 6, 0)
    assert many[:2] == few[:2], "the first answer does not decide where the second is"
    assert many[0][0] < 0 < many[1][0], "on either side of the warm start"
    assert many[2] != few[2]
    assert explored(6, 0, 6, 0)[3] == explored(6, 0, 0, 0)[3]
    assert [first for _, _, first in many] == [0, 6, 12, 18, 24], "no unit twice"


@pytest.mark.parametrize("units", [18, 30])  # more settle sooner
def test_an_estimate_plays_its_last_games_where_the_strength_is_believed_to_be(units: int) -> None:
    log: list[tuple[float, int]] = []

    def won(trials: Sequence[Trial]) -> list[int]:
        for trial in trials:
            log.append((trial.strength, 2 if len(log) % 3 else 1))  # whatever the strength
        return [item for _, item in log[-len(trials) :]]

    answered(crossing(0.258, domain=(-2.0, 2.0), units=units), won)
    assert 6 * len(log) == units
    curve = SuccessCurve.prior(-2.0, 2.0)
    for number, (strength, successes) in enumerate(log):
        if number >= len(log) - 2:
            assert abs(strength - curve.crossing(0.258)[0]) < 0.02, "the lattice is finer"
        place = int(np.argmin(np.abs(curve.strengths - strength)))
        curve = curve.observe(place, 6, successes)


def test_an_estimate_lies_where_the_rate_is_p_max() -> None:
    trials = crossing(0.286, domain=(-2.0, 2.0), units=48)
    found = answered(trials, lambda some: [item.units * (item.strength < 0.2) for item in some])
    assert 0 < found < 0.4
