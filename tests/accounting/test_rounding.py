"""Rounding after the noise, against the exact law of a sum of rounded messages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from trilemma.accounting.rounding import check_grid, grid_remainder, range_for
from trilemma.errors import InvalidInput


def rounded(mean: float, deviation: float, cells: int = 60) -> np.ndarray:
    """Probabilities of the grid points -cells … cells of one rounded message (grid 1)."""
    edges = np.arange(-cells, cells + 2) - 0.5
    return np.diff(norm.cdf(edges, mean, deviation))


def made_from_the_sum(mean: float, deviation: float, cells: int = 120) -> np.ndarray:
    """Probabilities of round(X + U), X ~ N(mean, 2 deviation²), U uniform on a cell."""
    shifts, weights = np.polynomial.legendre.leggauss(60)
    edges = np.arange(-cells, cells + 2) - 0.5
    sums = [np.diff(norm.cdf(edges, mean + u / 2, deviation * 2**0.5)) for u in shifts]
    return np.average(sums, axis=0, weights=weights)


def distance(deviation: float) -> float:
    """Largest total variation between both laws, over where the means lie in their cells."""
    worst = 0.0
    for first in (0.0, 0.2, 0.5):
        for second in (0.0, 0.3, 0.5):
            exact = np.convolve(rounded(first, deviation), rounded(second, deviation))
            made = made_from_the_sum(first + second, deviation)
            worst = max(worst, float(np.abs(exact - made).sum() / 2))
    return worst


@pytest.mark.parametrize("deviation", [0.75, 0.9, 1.1, 1.4])
def test_the_remainder_bounds_what_rounding_changes(deviation: float) -> None:
    bound = grid_remainder(1.0, deviation, messages=2, coordinates=1, rounds=1)
    assert 1e-14 < distance(deviation) <= bound


def test_a_coarse_grid_is_told_from_a_fine_one() -> None:
    assert distance(0.2) > 0.05
    assert distance(3.0) < 1e-13
    assert grid_remainder(1.0, 0.2, messages=2, coordinates=1, rounds=1) == 1.0
    assert grid_remainder(1.0, 0.2, messages=1, coordinates=9, rounds=9) == 0.0
    assert check_grid(0.01, deviation=0.03) == 0.01
    with pytest.raises(InvalidInput, match=r"use at most 0\.01"):
        check_grid(0.011, deviation=0.03)
    with pytest.raises(InvalidInput, match="positive"):
        check_grid(0.0, deviation=0.03)


def test_the_range_holds_all_but_the_failures() -> None:
    """Records that all point one way, the worst case for a coordinate."""
    failure, trainings = 0.3, 4000
    reach = range_for(
        records=40,
        q=0.1,
        denominator=4,
        record_clip=0.5,
        deviation=0.05,
        coordinates=3,
        rounds=10,
        failure=failure,
    )
    rng = np.random.default_rng(3)
    batches = rng.binomial(40, 0.1, (trainings, 10, 1))
    values = batches * 0.5 / 4 + rng.normal(scale=0.05, size=(trainings, 10, 3))
    outside = float((np.abs(values) > reach).any(axis=(1, 2)).mean())
    assert outside <= failure
    assert batches.max() * 0.5 / 4 > reach - 0.5  # the range is of the right size
    mean_batch = 4 * 0.5 / 4 + 4 * 0.05  # a range for the mean batch would fail in most trainings
    assert (np.abs(values) > mean_batch).any(axis=(1, 2)).mean() > 0.5
    with pytest.raises(InvalidInput, match="failure"):
        range_for(
            records=4,
            q=0.1,
            denominator=4,
            record_clip=1,
            deviation=1,
            coordinates=1,
            rounds=1,
            failure=0.0,
        )
    with pytest.raises(InvalidInput, match="records"):
        range_for(
            records=0,
            q=0.1,
            denominator=4,
            record_clip=1,
            deviation=1,
            coordinates=1,
            rounds=1,
        )
