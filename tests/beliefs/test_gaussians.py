from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from trilemma.beliefs.gaussians import (
    isotropic_tv,
    large_m_tv,
    large_m_tv_inverse,
    log1p_minus,
    upper_tv,
)


def plain_tv(parameters: int, log_ratio: float) -> float:
    """The plain formula with 50 digits."""
    with mp.workdps(50):
        m, r = mp.mpf(parameters), mp.exp(mp.mpf(log_ratio))
        t = m * mp.log1p(r) * (1 + r) / r
        return float(mp.gammainc(m / 2, t / (2 * (1 + r)), t / 2, regularized=True))


def test_isotropic_tv_against_mpmath() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        m = int(10 ** rng.uniform(0, 5))
        # from far below the noise that matters, 1/√m, to far above it
        log_ratio = float(rng.uniform(-25, 3) - 0.5 * math.log(m))
        assert isotropic_tv(m, log_ratio) == pytest.approx(plain_tv(m, log_ratio), rel=1e-9)


@pytest.mark.parametrize(("parameters", "ratio"), [(1, 3.0), (5, 0.5), (200, 0.1), (2410, 0.03)])
def test_isotropic_tv_against_monte_carlo(parameters: int, ratio: float) -> None:
    """TV = E_O[(1 - p_S/p_O)⁺], estimated from χ² draws of the squared norm."""
    rng = np.random.default_rng(7)
    norm = rng.chisquare(parameters, 200_000)
    log_likelihood = -0.5 * parameters * math.log1p(ratio) + norm / 2 * (ratio / (1 + ratio))
    sample = np.clip(-np.expm1(log_likelihood), 0, None)
    error = sample.std() / math.sqrt(sample.size)
    assert isotropic_tv(parameters, math.log(ratio)) == pytest.approx(sample.mean(), abs=4 * error)


@pytest.mark.parametrize("scaled", [1e-6, 0.1, 1.0, 3.0, 10.0])
def test_large_m_form_is_the_limit(scaled: float) -> None:
    exact = isotropic_tv(10**9, math.log(scaled) - 0.5 * math.log(10**9))
    assert large_m_tv(math.log(scaled)) == pytest.approx(exact, rel=1e-4)


def test_large_m_inverse() -> None:
    for tv in (1e-14, 1e-3, 0.3, 0.7, 1 - 1e-12):
        assert large_m_tv(large_m_tv_inverse(tv)) == pytest.approx(tv, rel=1e-9)


def test_underflowing_and_overflowing_noise() -> None:
    assert isotropic_tv(100, -800.0) == 0.0
    assert isotropic_tv(100, -math.inf) == 0.0
    assert isotropic_tv(100, 800.0) == 1.0
    assert isotropic_tv(100, -720.0) == pytest.approx(
        isotropic_tv(100, -700.0) * math.exp(-20), rel=1e-6
    )


def test_the_upper_bound_is_one() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        m = int(10 ** rng.uniform(0, 4))
        log_ratio = float(rng.uniform(-20, 6))
        exact = isotropic_tv(m, log_ratio)
        assert exact <= upper_tv(np.full(m, math.exp(log_ratio))) * (1 + 1e-12)


def test_the_upper_bound_holds_for_unequal_sigmas() -> None:
    """Against the true TV by Monte Carlo, for ratios over four decades."""
    rng = np.random.default_rng(9)
    for scale in (0.01, 0.1, 1.0):
        ratios = scale * 10 ** rng.uniform(-3, 1, size=50)
        squares = rng.standard_normal((100_000, 50)) ** 2
        log_likelihood = -0.5 * np.log1p(ratios).sum() + squares @ (ratios / (1 + ratios)) / 2
        sample = np.clip(-np.expm1(log_likelihood), 0, None)
        lower_limit = sample.mean() - 4 * sample.std() / math.sqrt(sample.size)
        assert lower_limit <= upper_tv(ratios)


def test_log1p_minus_against_mpmath() -> None:
    values = np.concatenate([10.0 ** np.arange(-18, 3), -(10.0 ** np.arange(-18, 0)), [-0.999]])
    for value, ours in zip(values, log1p_minus(values), strict=True):
        with mp.workdps(60):
            exact = float(mp.log1p(mp.mpf(float(value))) - mp.mpf(float(value)))
        assert ours == pytest.approx(exact, rel=1e-12)
