"""Sequential tests: their level by every path, their price beside a fixed size."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from tests.tuning.calibration.calibrating import P_MAX

from trilemma.tuning.calibration.sequential_test import (
    exact_operation,
    fixed_size,
    sequential_test,
)


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
