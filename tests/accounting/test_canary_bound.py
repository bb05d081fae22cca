"""The lower bound on μ from canaries, held against simulation and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from trilemma.accounting.canary_bound import count_canaries, mu_lower
from trilemma.errors import InvalidInput


@pytest.mark.parametrize(("right", "canaries"), [(60, 100), (340, 500), (100, 100)])
def test_bound_is_where_so_many_right_guesses_become_unlikely(right: int, canaries: int) -> None:
    mu = mu_lower(right, canaries)
    assert binom.sf(right - 1, canaries, norm.cdf(mu / 2)) == pytest.approx(0.05)


def test_guesses_no_better_than_coins_show_nothing() -> None:
    assert mu_lower(50, 100) == 0.0
    assert mu_lower(0, 100) == 0.0


@pytest.mark.parametrize("mu", [0.3, 0.9, 2.5])
def test_bound_exceeds_mu_in_one_of_twenty_runs_at_most(mu: float) -> None:
    draw, runs, above = np.random.default_rng(1), 1500, 0
    for _ in range(runs):
        used = draw.random(200) < 0.5
        above += count_canaries(used + draw.normal(size=200) / mu, used, 1).mu > mu
    assert binom.sf(above - 1, runs, 0.05) > 1e-4


def test_rounds_of_an_adaptive_training_tell_no_more_than_their_sum() -> None:
    """The rest of a sum follows earlier releases, and directions turn: mu is √R/z all the same."""
    draw, rounds, size, z, count, above = np.random.default_rng(2), 12, 80, 4.0, 60, 0
    mu, runs = math.sqrt(rounds) / z, 150
    for _ in range(runs):
        used, scores, state = draw.random(count) < 0.5, np.zeros(count), np.zeros(size)
        for _ in range(rounds):
            directions = np.linalg.qr(draw.normal(size=(size, count)))[0]
            released = np.tanh(state) + directions @ used + z * draw.normal(size=size)
            scores += directions.T @ (released - np.tanh(state)) / rounds
            state = state + released
        above += count_canaries(scores, used, rounds).mu > mu
    assert binom.sf(above - 1, runs, 0.05) > 1e-4


@pytest.mark.parametrize(("count", "share"), [(100, 0.50), (300, 0.73), (1000, 0.85)])
def test_ideal_canaries_show_so_much_of_mu(count: int, share: float) -> None:
    draw, mu = np.random.default_rng(3), 0.906
    shown = []
    for _ in range(200):
        used = draw.random(count) < 0.5
        shown.append(count_canaries(used + draw.normal(size=count) / mu, used, 1).mu / mu)
    assert float(np.median(shown)) == pytest.approx(share, abs=0.05)


def test_influence_and_noise_are_read_from_the_scores() -> None:
    draw, rounds = np.random.default_rng(4), 25
    used = draw.random(5000) < 0.5
    shown = count_canaries(3.0 * used + draw.normal(size=5000), used, rounds)
    low, influence, high = shown.influence
    assert low < 3.0 < high
    assert influence == pytest.approx(3.0, abs=0.15)
    assert shown.noise[0] < 5.0 < shown.noise[2]  # of one round, in √25 of the mean's deviation


def test_canaries_that_compare_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="compares nothing"):
        count_canaries(np.zeros(60), np.ones(60, dtype=bool), 1)
    with pytest.raises(InvalidInput, match=r"0 \.\. 10"):
        mu_lower(11, 10)
