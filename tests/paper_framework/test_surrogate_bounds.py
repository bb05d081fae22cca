"""Bounds as functions; the errata that they carry are in test_paper.py."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from trilemma.beliefs.intervals import Interval
from trilemma.errors import InvalidInput
from trilemma.paper_framework.surrogate_bounds import (
    Constants,
    Regime,
    chernoff_failure,
    chernoff_sample_size,
    log_c2,
    posterior_shift_bound,
)


def test_log_c2_against_mpmath() -> None:
    for xi in (1e-12, 1e-3, 0.5, 3.0, 50.0, 1e4):
        with mp.workdps(50):
            exact = mp.log(mp.expm1(2 * mp.mpf(xi)) / (2 * mp.sqrt(mp.log(2))))
        assert log_c2(xi) == pytest.approx(float(exact), rel=1e-12)


def test_constants_from_xi() -> None:
    assert Constants.from_xi(0.5, 1.0).c2 == pytest.approx(math.expm1(2) / 2 / math.log(2) ** 0.5)
    with pytest.raises(InvalidInput, match="overflow"):
        Constants.from_xi(0.5, 400.0)


@pytest.mark.parametrize(
    ("budget", "regime"),
    [
        (0.8, Regime.NO_PROTECTION_NEEDED),
        (0.79, Regime.BELOW_C1),
        (0.4, Regime.BELOW_C1),
        (0.39, Regime.ABOVE_C1),
    ],
)
def test_regimes(budget: float, regime: Regime) -> None:
    assert Constants(0.4, 10.0).regime(budget) is regime


def test_the_range_stays_within_the_unit_interval() -> None:
    assert Constants(0.4, 1e9).leakage_range(0.5) == Interval(0.0, 1.0)
    assert Constants(0.4, 1.0).proves(0.5, 0.05)
    assert not Constants(0.4, 1.0).proves(0.5, 0.2)


def test_the_sharper_shift_is_never_worse_and_needs_no_finite_c2() -> None:
    for xi in (0.01, 1.0, 10.0):
        for tv in (1e-9, 1e-3, 0.5, 1.0):
            plain = min(1.0, math.exp(log_c2(xi)) * tv)
            assert posterior_shift_bound(tv, xi) <= plain
    assert posterior_shift_bound(0.25, 1e6) == 0.5
    assert posterior_shift_bound(0.0, 1.0) == 0.0
    with pytest.raises(InvalidInput, match="tv"):
        posterior_shift_bound(1.5, 1.0)


def test_chernoff_size_is_the_first_that_suffices() -> None:
    rates = [0.9, 0.3, 0.05]
    size = chernoff_sample_size(0.2, 0.05, rates)
    assert chernoff_failure(0.2, size, rates) <= 0.05 < chernoff_failure(0.2, size - 1, rates)
    by_hand = sum(2 * math.exp(-0.04 * size * rate / 3) for rate in rates)
    assert chernoff_failure(0.2, size, rates) == pytest.approx(by_hand)


def test_chernoff_promise_holds_in_simulation() -> None:
    """The lemma is loose, so the observed failure rate stays below the promised one."""
    rng = np.random.default_rng(12)
    rates, trials, error = np.array([0.5, 0.25]), 400, 0.25
    counts = rng.binomial(trials, rates, size=(4000, 2)) / trials
    failures = (np.abs(counts - rates) > error * rates).any(axis=1).mean()
    assert failures <= chernoff_failure(error, trials, list(rates))


@pytest.mark.parametrize("c1", [0.0, -1.0, 1.01, math.nan])
def test_c1_outside_its_domain(c1: float) -> None:
    with pytest.raises(InvalidInput, match="c1"):
        Constants(c1, 1.0)


@pytest.mark.parametrize("c2", [0.0, -1.0, math.inf, math.nan])
def test_c2_outside_its_domain(c2: float) -> None:
    with pytest.raises(InvalidInput, match="c2"):
        Constants(0.5, c2)


@pytest.mark.parametrize("budget", [0.0, 1.0, 2.0, -0.1, math.nan])
def test_budget_outside_its_domain(budget: float) -> None:
    with pytest.raises(InvalidInput, match="budget"):
        Constants(0.5, 1.0).required_distortion(budget)


def test_rates_that_never_happen_are_refused() -> None:
    with pytest.raises(InvalidInput, match="never happens"):
        chernoff_failure(0.1, 10, [0.5, 0.0])
