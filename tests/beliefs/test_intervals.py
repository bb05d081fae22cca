from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from trilemma.beliefs.intervals import (
    acceptance_size,
    clopper_pearson,
    clopper_pearson_upper,
    zero_success_size,
)
from trilemma.errors import InvalidInput


@pytest.mark.parametrize("trials", [1, 7, 60, 1000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_clopper_pearson_is_scipys_exact_interval(trials: int, confidence: float) -> None:
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        reference = binomtest(successes, trials).proportion_ci(confidence, method="exact")
        ours = clopper_pearson(successes, trials, confidence)
        assert ours.low == pytest.approx(reference.low, abs=1e-12)
        assert ours.high == pytest.approx(reference.high, abs=1e-12)
        one_sided = binomtest(successes, trials, alternative="less")
        limit = one_sided.proportion_ci(confidence, method="exact").high
        assert clopper_pearson_upper(successes, trials, confidence) == pytest.approx(limit)


@pytest.mark.parametrize("trials", [10, 40])
def test_clopper_pearson_covers_every_rate_at_least_nominally(trials: int) -> None:
    intervals = [clopper_pearson(k, trials) for k in range(trials + 1)]
    for rate in np.linspace(0.001, 0.999, 333):
        covered = [k for k, interval in enumerate(intervals) if rate in interval]
        assert np.sum(binom.pmf(covered, trials, rate)) >= 0.95


@pytest.mark.parametrize("p_max", [0.01, 0.078, 0.286, 0.559, 0.9])
@pytest.mark.parametrize("successes", [0, 1, 5, 20])
def test_acceptance_size_is_the_first_that_suffices(p_max: float, successes: int) -> None:
    size = acceptance_size(successes, p_max, 0.04)
    assert binom.cdf(successes, size, p_max) <= 0.04
    assert size == 1 or binom.cdf(successes, size - 1, p_max) > 0.04
    if successes == 0:
        assert zero_success_size(p_max, 0.04) == size


@pytest.mark.parametrize(
    ("successes", "trials", "confidence"), [(-1, 5, 0.9), (6, 5, 0.9), (0, 0, 0.9), (1, 5, 1.0)]
)
def test_impossible_counts_are_refused(successes: int, trials: int, confidence: float) -> None:
    with pytest.raises(InvalidInput):
        clopper_pearson(successes, trials, confidence)


def test_impossible_levels_are_refused() -> None:
    for p_max, alpha in [(0.0, 0.05), (1.0, 0.05), (0.5, 0.0)]:
        with pytest.raises(InvalidInput, match="strictly between"):
            zero_success_size(p_max, alpha)
