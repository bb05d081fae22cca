from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from trilemma.beliefs.divergences import jensen_shannon, kullback_leibler, total_variation
from trilemma.errors import InvalidInput


def test_js_and_kl_agree_with_scipy_on_random_vectors() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        size = int(rng.integers(2, 30))
        p, q = rng.dirichlet(np.full(size, 0.4), size=2)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2, rel=1e-9)
        assert kullback_leibler(p, q) == pytest.approx(entropy(p, q), rel=1e-9, abs=1e-15)
        assert total_variation(p, q) == pytest.approx(max(_subset_gaps(p - q)), rel=1e-9)


def _subset_gaps(difference: np.ndarray) -> tuple[float, float]:
    """sup_A |P(A) - Q(A)| is reached on the set where the difference has one sign."""
    return float(difference[difference > 0].sum()), float(-difference[difference < 0].sum())


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-7, 1e-11])
def test_js_keeps_relative_accuracy_for_close_vectors(gap: float) -> None:
    p, q = [0.5 + gap, 0.5 - gap], [0.5, 0.5]
    with mp.workdps(60):
        half = mp.mpf(1) / 2
        exact = mp.mpf(0)
        for a, b in zip(map(mp.mpf, p), map(mp.mpf, q), strict=True):
            m = (a + b) / 2
            exact += half * (a * mp.log(a / m) + b * mp.log(b / m))
        assert jensen_shannon(p, q) == pytest.approx(float(exact), rel=1e-9)


def test_disjoint_and_equal_vectors() -> None:
    assert jensen_shannon([1, 0, 0], [0, 0.5, 0.5]) == pytest.approx(math.log(2), rel=1e-15)
    assert jensen_shannon([0.3, 0.7, 0], [0.3, 0.7, 0]) == 0
    assert kullback_leibler([0.5, 0.5], [1, 0]) == math.inf


def test_sqrt_js_satisfies_the_triangle_inequality() -> None:
    rng = np.random.default_rng(2)
    for _ in range(500):
        p, q, r = rng.dirichlet(np.full(4, 0.3), size=3)
        direct = math.sqrt(jensen_shannon(p, r))
        assert direct <= math.sqrt(jensen_shannon(p, q)) + math.sqrt(jensen_shannon(q, r)) + 1e-12


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.5], [1.0], "one length"),
        ([0.5, 0.6], [0.5, 0.5], "sum to 1"),
        ([1.5, -0.5], [0.5, 0.5], "not negative"),
        ([math.nan, 1.0], [0.5, 0.5], "finite"),
        ([], [], "one length"),
    ],
)
def test_what_is_no_distribution_is_refused(p: list[float], q: list[float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        jensen_shannon(p, q)
