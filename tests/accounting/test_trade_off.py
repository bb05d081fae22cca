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

from trilemma.accounting import trade_off
from trilemma.accounting.noise_calibration import epsilon, success_bound, true_positive_rate
from trilemma.accounting.sampled_training import Training
from trilemma.accounting.trade_off import decision_bound

DIGITS = Training(rounds=150, q=4 / 150, noise_multiplier=0.52, participation="secret")
TRAININGS = [
    DIGITS,
    Training(1000, 0.01, 1.0, "secret"),
    Training(1000, 0.1, 3.0, "secret"),
    Training(30, 0.3, 1.5, "secret"),
]


def given_used(training: Training, rate: float, level: float) -> float:
    """From a rate over all trainings to the rate over those that use the record."""
    unused = (1 - training.q) ** (training.rounds * training.records_of_person)
    return (rate - unused * level) / (1 - unused)


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
    every = {2: 0.856, 10: 0.502, 38: 0.300, 100: 0.202, 1000: 0.075}
    for n, p in every.items():
        expected = given_used(DIGITS, p, 1 / n)
        assert success_bound(DIGITS, n) == pytest.approx(expected, abs=6e-4)
    pair = Training(150, 4 / 150, 0.52, "secret", records_of_person=2)
    assert success_bound(pair, 100) == pytest.approx(0.52, abs=1e-3)  # one in 3,000 is not used
    assert epsilon(DIGITS, 1e-5) == pytest.approx(12.1, abs=0.05)
    assert true_positive_rate(DIGITS) == pytest.approx(given_used(DIGITS, 0.202, 0.01), abs=6e-4)


def test_the_claim_is_about_a_record_that_is_used() -> None:
    """A client of 6,000 records and batches of 4: 10 of 100 records are used in 150 rounds."""
    for noise, expected in ((0.3, 0.436), (0.36, 0.246)):
        secret = Training(150, 4 / 6000, noise, "secret")
        assert success_bound(secret, 38) == pytest.approx(expected, abs=1e-3)
    shares = np.asarray(binom.pmf(range(1, 151), 150, 4 / 6000))
    for noise in (0.3, 1.15):
        known = Training(150, 4 / 6000, noise, "known")
        given = norm.cdf(norm.ppf(1 / 38) + np.sqrt(range(1, 151)) / noise) @ shares
        assert success_bound(known, 38) == pytest.approx(given / shares.sum(), rel=1e-9)
    # In secret, more rounds are no help to the attacker of a record that is used.
    assert success_bound(Training(1, 4 / 6000, 0.5, "secret"), 38) > 0.5
    assert success_bound(Training(150, 4 / 6000, 0.5, "secret"), 38) < 0.1


def test_a_record_that_is_hardly_ever_used_needs_noise_all_the_same() -> None:
    for participation in ("secret", "known"):
        training = Training(1, 1e-9, 2.0, participation)
        expected = gaussian_power(0.01, 0.5)
        assert success_bound(training, 100) == pytest.approx(expected, rel=2e-3)


def test_deciding_about_use_against_the_total_variation() -> None:
    for training in (Training(150, 1.0, 13.516), Training(3, 1.0, 0.7)):
        distance = 2 * norm.cdf(math.sqrt(training.rounds) / training.noise_multiplier / 2) - 1
        assert decision_bound(training) == pytest.approx((1 + distance) / 2, rel=1e-9)
    # One sampled round that is used: P' is N(1/z, 1), whoever knows the round.
    for participation in ("secret", "known"):
        used = Training(1, 0.3, 0.8, participation)
        assert decision_bound(used) == pytest.approx(norm.cdf(0.5 / 0.8), abs=1e-4)


@pytest.mark.parametrize("training", TRAININGS)
def test_against_riskcal(training: Training) -> None:
    """riskcal takes the worse of both orders, which differs for small candidate sets only."""
    fine, alike = library_losses(training), library_losses(training, 2.5e-3)
    for n in (2, 3, 5, 8, 10, 12, 15, 19, 20, 38, 100, 1000, 10**5):
        ours = success_bound(training, n)
        if n < 20:  # never above it, on a grid of losses with the same step
            theirs = given_used(training, 1 - get_beta_from_pld(alike, alpha=1 / n), 1 / n)
            assert ours <= theirs + 1e-7
        else:
            theirs = given_used(training, 1 - get_beta_from_pld(fine, alpha=1 / n), 1 / n)
            assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("training", TRAININGS[:2])
def test_against_dp_accounting_in_the_right_order(training: Training) -> None:
    order = privacy_loss_mechanism.AdjacencyType.REMOVE
    fine = one_order(training, order, 4e-4)
    for n in (2, 10, 100, 1000):
        # Pessimistic, and by little: a finer grid is a smaller bound that still is one.
        theirs = given_used(training, least_over_epsilon(fine, n), 1 / n)
        assert 0 <= success_bound(training, n) - theirs + 5e-6 < 6e-5


def test_several_records_against_dp_accountings_mixture() -> None:
    training = Training(20, 0.1, 1.0, "secret", records_of_person=3)
    losses = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, range(4), binom.pmf(range(4), 3, 0.1), value_discretization_interval=5e-3
    ).self_compose(20)
    for n in (50, 100, 1000):
        theirs = given_used(training, least_over_epsilon(losses, n), 1 / n)
        assert success_bound(training, n) == pytest.approx(theirs, abs=2e-4)
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
        expected = gaussian_power(kappa, 1 / noise)
        assert success_bound(sampled, candidates) == pytest.approx(expected, abs=1e-5)


def test_one_sampled_round_by_the_composed_path_too() -> None:
    """The membership bound of one round goes through the grid of losses; the truth is exact."""
    for noise, level in ((0.52, 0.01), (1.0, 0.1), (3.0, 0.3)):
        exact = gaussian_power(level, 1 / noise)
        found = true_positive_rate(Training(1, 0.1, noise, "secret"), level)
        assert exact - 1e-12 <= found <= exact + 3e-4


def test_known_participation_in_closed_form() -> None:
    known = Training(150, 4 / 150, 1.32, "known")
    expected = sum(
        math.comb(150, k)
        * (4 / 150) ** k
        * (146 / 150) ** (150 - k)
        * gaussian_power(0.01, k**0.5 / 1.32)
        for k in range(1, 60)
    )
    expected /= 1 - (146 / 150) ** 150
    assert success_bound(known, 100) == pytest.approx(expected, abs=1e-9)
    # Two records: enumerate the numbers of rounds that hold none, one or both.
    pair, total = Training(6, 0.2, 1.0, "known", records_of_person=2), 0.0
    for both in range(7):
        for one in range(7 - both):
            ways = math.comb(6, both) * math.comb(6 - both, one)
            distribution = ways * 0.04**both * 0.32**one * 0.64 ** (6 - both - one)
            if both + one:
                total += distribution * gaussian_power(0.05, math.sqrt(4 * both + one))
    total /= 1 - 0.64**6
    assert success_bound(pair, 20) == pytest.approx(total, abs=1e-9)


def test_a_membership_test_may_choose_where_to_err() -> None:
    """With batches known, accusing only where the record was used often beats an even level."""
    known = Training(2, 0.5, 1.0, "known")
    even = success_bound(known, 100)
    best = 0.0
    for spent_on_two in np.linspace(1e-6, 0.03 - 1e-6, 4001):
        once = (0.01 - spent_on_two / 3) * 3 / 2
        power = gaussian_fast(spent_on_two, 2**0.5) / 3 + gaussian_fast(once, 1.0) * 2 / 3
        best = max(best, power if once > 0 else 0.0)
    assert best > even + 1e-3
    assert best <= true_positive_rate(known, 0.01) <= best + 1e-4


def gaussian_fast(level: float, shift: float) -> float:
    return float(norm.sf(norm.isf(level) - shift)) if level > 0 else 0.0


def toy_guess_rate(training: Training, candidates: int, trainings: int, seed: int) -> float:
    """The exact posterior of candidates whose gradients are orthogonal: how often it is right."""
    rng = np.random.default_rng(seed)
    z, q = training.noise_multiplier, training.q
    hits = 0
    for _ in range(trainings):
        seen = rng.normal(scale=z, size=(training.rounds, candidates))
        held = np.zeros(training.rounds, bool)
        while not held.any():  # the claim is about a record that is used
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
    rate = toy_guess_rate(DIGITS, 100, trials, seed=7)
    error = math.sqrt(rate * (1 - rate) / trials)
    assert rate - 5 * error > wrong
    assert rate < success_bound(DIGITS, 100) + 3 * error
    assert rate > success_bound(DIGITS, 100) / 3  # the bound is not empty


def test_batches_that_are_known_break_the_bound_of_secret_ones() -> None:
    known = Training(150, 4 / 150, 0.52, "known")
    trials = 200
    rate = toy_guess_rate(known, 100, trials, seed=8)
    error = math.sqrt(0.25 / trials)
    assert rate > success_bound(DIGITS, 100) + 5 * error
    assert rate < success_bound(known, 100) + 3 * error


def test_the_bound_moves_the_right_way() -> None:
    base = success_bound(Training(50, 0.05, 0.8, "known"), 50)
    assert success_bound(Training(100, 0.05, 0.8), 50) > base
    assert success_bound(Training(50, 0.1, 0.8), 50) > base
    assert success_bound(Training(50, 0.05, 0.8, records_of_person=2), 50) > base
    assert success_bound(Training(50, 0.05, 1.0), 50) < base
    assert success_bound(Training(50, 0.05, 0.8, "secret"), 50) < base
    # Next to no noise, where losses have no useful grid: the closed form stands in.
    assert success_bound(Training(5, 0.05, 0.099, "secret"), 50) >= success_bound(
        Training(5, 0.05, 0.101, "secret"), 50
    )


def test_many_values_of_a_person_are_merged_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the sum over all K by direct convolution: never below it, and hardly above."""
    k, rounds, q, z, kappa = 4, 30, 0.1, 2.0, 0.01
    one = np.zeros(k * k + 1)
    for m in range(k + 1):
        one[m * m] += binom.pmf(m, k, q)
    masses = np.ones(1)
    for _ in range(rounds):
        masses = np.convolve(masses, one)
    shifts = np.sqrt(np.arange(1, len(masses))) / z
    exact = norm.cdf(norm.ppf(kappa) + shifts) @ masses[1:] / masses[1:].sum()
    for most, slack in ((4096, 1e-9), (100, 0.05)):
        monkeypatch.setattr(trade_off, "_MOST_VALUES", most)
        trade_off._squares.cache_clear()
        training = Training(rounds, q, z, "known", k)
        bound = float(trade_off.guess_bound(training, np.array([kappa]))[0])
        assert exact - 1e-12 <= bound <= exact * (1 + slack)
    trade_off._squares.cache_clear()
