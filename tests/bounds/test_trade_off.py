"""The trade-off against dp-accounting, riskcal, closed forms, and attackers that try."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import pld_pmf, privacy_loss_distribution, privacy_loss_mechanism
from riskcal.analysis import get_beta_from_pld
from scipy.stats import binom, norm

from trilemma.bounds.certificate import epsilon, success_bound, true_positive_rate
from trilemma.bounds.training import Training

DIGITS = Training(rounds=150, q=4 / 150, noise_multiplier=0.52)
TRAININGS = [
    DIGITS,
    Training(1000, 0.01, 1.0),
    Training(1000, 0.1, 3.0),
    Training(30, 0.3, 1.5),
]


@cache
def library_losses(training: Training, step: float = 1e-3) -> Any:
    one = privacy_loss_distribution.from_gaussian_mechanism(
        training.noise_multiplier,
        sampling_prob=training.q,
        value_discretization_interval=step,
    )
    return one.self_compose(training.rounds)


def one_order(training: Training, order: Any, step: float = 1e-3) -> Any:
    """One direction alone, from dp-accounting's public parts."""
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(
        training.noise_multiplier, sampling_prob=training.q, adjacency_type=order
    )
    bounds = loss.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / step), math.ceil(bounds.epsilon_upper / step)
    deltas = loss.get_delta_for_epsilon(np.arange(low, high + 1) * step)
    one = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, deltas)
    return one.self_compose(training.rounds)


def least_over_epsilon(losses: Any, candidates: float) -> float:
    epsilons = np.linspace(-8, 12, 2001)
    return float(np.min(np.exp(epsilons) / candidates + losses.get_delta_for_epsilon(epsilons)))


def test_the_figures_of_the_digits_scenario() -> None:
    found = [success_bound(DIGITS, n) for n in (2, 10, 38, 100, 1000)]
    assert found == pytest.approx([0.856, 0.502, 0.300, 0.202, 0.075], abs=5e-4)
    assert success_bound(Training(1000, 0.01, 1.0), 100) == pytest.approx(0.0292, abs=1e-4)
    assert success_bound(Training(150, 4 / 150, 0.52, records_of_person=2), 100) == pytest.approx(
        0.52, abs=1e-3
    )
    assert epsilon(DIGITS, 1e-5) == pytest.approx(12.1, abs=0.05)
    assert true_positive_rate(DIGITS) == pytest.approx(0.202, abs=5e-4)


@pytest.mark.parametrize("training", TRAININGS)
def test_against_riskcal(training: Training) -> None:
    """riskcal takes the worse of both orders, which differs for small line-ups only."""
    fine, alike = library_losses(training), library_losses(training, 2.5e-3)
    for n in (2, 3, 5, 8, 10, 12, 15, 19, 20, 38, 100, 1000, 10**5):
        ours = success_bound(training, n)
        if n < 20:  # never above it, on a grid of losses with the same step
            assert ours <= 1 - get_beta_from_pld(alike, alpha=1 / n) + 1e-7
        else:
            assert ours == pytest.approx(1 - get_beta_from_pld(fine, alpha=1 / n), abs=1e-3)


@pytest.mark.parametrize("training", TRAININGS[:2])
def test_against_dp_accounting_in_the_right_order(training: Training) -> None:
    order = privacy_loss_mechanism.AdjacencyType.REMOVE
    fine = one_order(training, order, 4e-4)
    for n in (2, 10, 100, 1000):
        # Pessimistic, and by little: a finer grid is a smaller bound that still is one.
        assert 0 <= success_bound(training, n) - least_over_epsilon(fine, n) + 5e-6 < 6e-5


def test_several_records_against_dp_accountings_mixture() -> None:
    training = Training(20, 0.1, 1.0, records_of_person=3)
    losses = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, range(4), binom.pmf(range(4), 3, 0.1), value_discretization_interval=5e-3
    ).self_compose(20)
    for n in (50, 100, 1000):
        assert success_bound(training, n) == pytest.approx(least_over_epsilon(losses, n), abs=2e-4)
    assert epsilon(training, 1e-5) == pytest.approx(losses.get_epsilon_for_delta(1e-5), abs=2e-3)


@pytest.mark.parametrize("training", TRAININGS)
def test_epsilon_against_dp_accounting(training: Training) -> None:
    for delta, allowed in ((1e-3, 3e-3), (1e-5, 3e-3), (1e-8, 3e-2)):  # rounding counts against us
        theirs = library_losses(training).get_epsilon_for_delta(delta)
        assert -3e-3 < epsilon(training, delta) - theirs < allowed


def gaussian_power(kappa: float, shift: float) -> float:
    """Φ(Φ⁻¹(κ) + shift) to 30 digits."""
    with mp.workdps(30):
        quantile = -mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(kappa))
        return float(mp.ncdf(quantile + shift))


@pytest.mark.parametrize("candidates", [2, 20, 100, 10**6])
@pytest.mark.parametrize("noise", [0.3, 1.0, 12.0])
def test_one_round_and_full_batches_in_closed_form(candidates: int, noise: float) -> None:
    kappa = 1 / candidates
    for participation in ("secret", "known"):
        one = Training(1, 1.0, noise, participation)
        expected = gaussian_power(kappa, 1 / noise)
        assert success_bound(one, candidates) == pytest.approx(expected, rel=1e-9)
        many = Training(40, 1.0, noise, participation)
        expected = gaussian_power(kappa, math.sqrt(40) / noise)
        assert success_bound(many, candidates) == pytest.approx(expected, rel=1e-9)
        # One sampled round: a likelihood ratio that rises with x, so the same test is best.
        sampled = Training(1, 0.1, noise, participation)
        expected = 0.9 * kappa + 0.1 * gaussian_power(kappa, 1 / noise)
        assert success_bound(sampled, candidates) == pytest.approx(expected, abs=1e-6)


def test_one_sampled_round_by_the_composed_path_too() -> None:
    """The membership bound of one round goes through the grid of losses; the truth is exact."""
    for noise, level in ((0.52, 0.01), (1.0, 0.1), (3.0, 0.3)):
        exact = 0.9 * level + 0.1 * gaussian_power(level, 1 / noise)
        found = true_positive_rate(Training(1, 0.1, noise), level)
        assert exact <= found <= exact + 3e-5


def test_known_participation_in_closed_form() -> None:
    known = Training(150, 4 / 150, 1.32, "known")
    expected = sum(
        math.comb(150, k)
        * (4 / 150) ** k
        * (146 / 150) ** (150 - k)
        * gaussian_power(0.01, k**0.5 / 1.32)
        for k in range(60)
    )
    assert success_bound(known, 100) == pytest.approx(expected, abs=1e-9)
    # Two records: enumerate the numbers of rounds that hold none, one or both.
    pair, total = Training(6, 0.2, 1.0, "known", records_of_person=2), 0.0
    for both in range(7):
        for one in range(7 - both):
            ways = math.comb(6, both) * math.comb(6 - both, one)
            law = ways * 0.04**both * 0.32**one * 0.64 ** (6 - both - one)
            total += law * gaussian_power(0.05, math.sqrt(4 * both + one))
    assert success_bound(pair, 20) == pytest.approx(total, abs=1e-9)


def test_a_membership_test_may_choose_where_to_err() -> None:
    """With batches known, accusing only where the record was used often beats an even level."""
    known = Training(2, 0.5, 1.0, "known")
    even = success_bound(known, 100)
    best = 0.0
    for spent_on_two in np.linspace(1e-6, 0.04 - 1e-6, 4001):
        once = (0.01 - spent_on_two / 4) * 2
        power = gaussian_fast(spent_on_two, 2**0.5) / 4 + gaussian_fast(once, 1.0) / 2
        best = max(best, power if once > 0 else 0.0)
    assert best > even + 1e-3
    assert best <= true_positive_rate(known, 0.01) <= best + 1e-4


def gaussian_fast(level: float, shift: float) -> float:
    return float(norm.sf(norm.isf(level) - shift)) if level > 0 else 0.0


def toy_pick_rate(training: Training, candidates: int, trainings: int, seed: int) -> float:
    """The exact posterior of candidates whose gradients are orthogonal: how often it is right."""
    rng = np.random.default_rng(seed)
    z, q = training.noise_multiplier, training.q
    hits = 0
    for _ in range(trainings):
        seen = rng.normal(scale=z, size=(training.rounds, candidates))
        held = rng.random(training.rounds) < q
        seen[:, 0] += held
        likelihood = (seen - 0.5) / z**2
        if training.participation == "known":
            score = likelihood[held].sum(axis=0)
        else:
            score = np.log1p(q * np.expm1(likelihood)).sum(axis=0)
        hits += int(rng.choice(np.flatnonzero(score == score.max()))) == 0
    return hits / trainings


def test_an_attacker_refutes_the_wrong_order_and_stays_below_the_right_one() -> None:
    order = privacy_loss_mechanism.AdjacencyType.ADD
    wrong = least_over_epsilon(one_order(DIGITS, order), 100)
    assert wrong == pytest.approx(0.071, abs=1e-3)
    trials = 1000
    rate = toy_pick_rate(DIGITS, 100, trials, seed=7)
    error = math.sqrt(rate * (1 - rate) / trials)
    assert rate - 5 * error > wrong
    assert rate < success_bound(DIGITS, 100) + 3 * error
    assert rate > success_bound(DIGITS, 100) / 3  # the bound is not empty


def test_batches_that_are_known_break_the_bound_of_secret_ones() -> None:
    known = Training(150, 4 / 150, 0.52, "known")
    trials = 200
    rate = toy_pick_rate(known, 100, trials, seed=8)
    error = math.sqrt(0.25 / trials)
    assert rate > success_bound(DIGITS, 100) + 5 * error
    assert rate < success_bound(known, 100) + 3 * error


def test_the_bound_moves_the_right_way() -> None:
    base = success_bound(Training(50, 0.05, 0.8), 50)
    assert success_bound(Training(100, 0.05, 0.8), 50) > base
    assert success_bound(Training(50, 0.1, 0.8), 50) > base
    assert success_bound(Training(50, 0.05, 0.8, records_of_person=2), 50) > base
    assert success_bound(Training(50, 0.05, 1.0), 50) < base
    assert base < success_bound(Training(50, 0.05, 0.8, "known"), 50)
    # Next to no noise, where losses have no useful grid: the closed form stands in.
    assert success_bound(Training(5, 0.05, 0.099), 50) >= success_bound(
        Training(5, 0.05, 0.101), 50
    )
