"""A search keeps to its domain, its units and its level."""

from __future__ import annotations

import pytest
from tests.tuning.calibrating.test_calibration import ALPHA, WORKS

from trilemma.tuning.calibrating.calibration import calibrate
from trilemma.tuning.calibrating.outcomes import UNPROTECTED


def test_no_request_leaves_the_domain() -> None:
    asked: list[float] = []

    def attack(x: float, count: int, stage: str, first_unit: int) -> int:
        asked.append(x)
        return count  # nothing helps

    result = calibrate(attack, 0.286, WORKS, domain=(-0.31, 0.47))
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

    result = calibrate(attack, 0.286, control=WORKS)
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

    result = calibrate(attack, 0.286, control=WORKS, domain=(-2.0, 4.0))
    assert len(result.tested) > 2
    assert not any(point.passed for point in result.tested)
    assert sum(point.level for point in result.tested if point.level is not None) < ALPHA
