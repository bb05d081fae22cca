from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from trilemma.beliefs.belief import (
    bernoulli_leakage,
    largest_mean_success_rate,
    largest_success_rate,
    leakage,
    posterior_belief,
    system_leakage,
)
from trilemma.errors import InvalidInput


def test_leakage_is_scipys_base_2_distance() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        p, q = rng.dirichlet(np.ones(6), size=2)
        assert leakage(p, q) == pytest.approx(jensenshannon(p, q, base=2), rel=1e-9)


def test_bernoulli_leakage_against_scipy_and_zero_below_the_guess() -> None:
    rng = np.random.default_rng(4)
    for p, kappa in rng.random((200, 2)):
        expected = jensenshannon([p, 1 - p], [kappa, 1 - kappa], base=2) if p >= kappa else 0
        assert bernoulli_leakage(p, kappa) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_largest_success_rate_inverts_the_leakage() -> None:
    rng = np.random.default_rng(5)
    for budget, kappa in rng.random((300, 2)) * [0.95, 0.5]:
        rate = largest_success_rate(budget, kappa)
        if rate == 1.0:
            assert bernoulli_leakage(1.0, kappa) <= budget
        else:
            assert bernoulli_leakage(rate, kappa) == pytest.approx(budget, rel=1e-9)


def test_extremes_of_the_inverse() -> None:
    assert largest_success_rate(0.0, 0.25) == 0.25
    assert largest_success_rate(1.0) == 1.0
    assert largest_success_rate(1e-6) == pytest.approx(2e-12, rel=1e-3)  # H₀(p) ≈ √(p/2)
    tiny = largest_success_rate(1e-6)
    assert bernoulli_leakage(tiny) == pytest.approx(1e-6, rel=1e-9)


def test_posterior_belief_averages_over_what_is_released() -> None:
    table = [[0.9, 0.1], [0.2, 0.8]]
    assert posterior_belief(table, [0.25, 0.75]) == pytest.approx([0.375, 0.625])
    with pytest.raises(InvalidInput, match="table"):
        posterior_belief(table, [1.0])


def test_system_leakage_needs_a_client() -> None:
    with pytest.raises(InvalidInput, match="at least one client"):
        system_leakage([])


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_rates_outside_the_unit_interval_are_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        bernoulli_leakage(value)
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        largest_success_rate(0.3, value)


@pytest.mark.parametrize("kappa", [0.0, 0.001, 0.01, 1 / 38, 0.05, 0.2, 0.5])
def test_the_mean_over_clients_stays_within_the_budget(kappa: float) -> None:
    """Any two clients, at any shares, whose mean rate is allowed leak the budget at most."""
    rates = np.linspace(0, 1, 81)
    leakages = np.array([bernoulli_leakage(float(p), kappa) for p in rates])
    shares = np.linspace(0, 1, 41)[:, None, None]
    mean_rate = shares * rates + (1 - shares) * rates[:, None]
    mean_leakage = shares * leakages + (1 - shares) * leakages[:, None]
    for budget in (0.05, 0.2, 0.3, 0.45, 0.6):
        allowed = largest_mean_success_rate(budget, kappa)
        assert allowed <= largest_success_rate(budget, kappa)
        assert mean_leakage[mean_rate <= allowed].max() <= budget + 1e-9
        if allowed < 1:  # and not for want of trying: a little more allows a pair that breaks it
            more = mean_leakage[(mean_rate > allowed) & (mean_rate <= allowed + 0.03)]
            assert more.max() > budget


def test_the_plain_inverse_does_not_bound_the_mean() -> None:
    # Half the clients at .25, half at 1, candidate sets of 100.
    budget = (bernoulli_leakage(0.25, 0.01) + bernoulli_leakage(1.0, 0.01)) / 2 - 1e-3
    assert largest_success_rate(budget, 0.01) > 0.625 > largest_mean_success_rate(budget, 0.01)
