"""The claim, its supremum over candidate sets, and the noise for a budget."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.spatial.distance import jensenshannon
from scipy.stats import norm

from trilemma.accounting.noise_calibration import (
    epsilon,
    leakage_bound,
    leakage_supremum,
    noise_multiplier_for,
    success_bound,
    true_positive_rate,
)
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.beliefs.belief import largest_success_rate
from trilemma.errors import InvalidInput

Q = 4 / 150


def test_leakage_is_scipys_distance_of_the_success_bound() -> None:
    training = Training(150, Q, 0.52, "secret")
    for n in (2, 10, 38, 1000):
        p = success_bound(training, n)
        expected = jensenshannon([p, 1 - p], [1 / n, 1 - 1 / n], base=2)
        assert leakage_bound(training, n) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("candidates", "participation", "expected"),
    [
        (100, "secret", 0.513),
        (38, "secret", 0.55),
        (None, "secret", 0.61),
        (100, "known", 1.327),
    ],
)
def test_the_noise_for_a_budget(
    candidates: int | None, participation: Participation, expected: float
) -> None:
    z = noise_multiplier_for(
        0.3, rounds=150, q=Q, participation=participation, candidates=candidates
    )
    assert z == pytest.approx(expected, abs=5e-3)
    trainings = [Training(150, Q, z * factor, participation) for factor in (1.0, 1 - 1e-3)]
    if candidates is None:
        enough, less = (leakage_supremum(training)[0] for training in trainings)
    else:
        enough, less = (leakage_bound(training, candidates) for training in trainings)
        assert success_bound(trainings[0], candidates) <= largest_success_rate(0.3, 1 / candidates)
    assert enough <= 0.3 < less


def test_one_round_known_to_hold_the_record_needs_more_than_150_in_secret() -> None:
    once = noise_multiplier_for(0.3, rounds=1, q=1.0, candidates=100)
    assert once == pytest.approx(0.655, abs=1e-3)
    secret = noise_multiplier_for(0.3, rounds=150, q=Q, participation="secret", candidates=100)
    assert once > secret


def test_the_noise_of_full_batches_in_closed_form() -> None:
    """√R/z = 0.9062 leaks .3 at the worst N, which is 3."""
    for rounds in (1, 150, 10_000):
        z = noise_multiplier_for(0.3, rounds=rounds, q=1.0)
        assert math.sqrt(rounds) / z == pytest.approx(0.9062, abs=2e-4)
        assert leakage_supremum(Training(rounds, 1.0, z))[1] == 3


@pytest.mark.parametrize(
    "training",
    [Training(150, Q, 0.61, "secret"), Training(150, Q, 2.1), Training(1, 1.0, 0.3)],
)
def test_the_supremum_over_line_ups_against_every_one(training: Training) -> None:
    most, at = leakage_supremum(training)
    every = {n: leakage_bound(training, n) for n in range(2, 1500)}
    largest = max(every.values())
    assert largest - 1e-12 <= most <= largest + 1e-4
    assert every[at] == pytest.approx(largest, abs=1e-4)


def test_a_rare_record_needs_noise_and_some_budgets_no_noise_meets() -> None:
    rare = noise_multiplier_for(0.3, rounds=2, q=1e-4)
    assert rare == pytest.approx(noise_multiplier_for(0.3, rounds=1, q=1.0), rel=1e-2)
    with pytest.raises(InvalidInput, match="fewer rounds"):
        noise_multiplier_for(1e-6, rounds=10**6, q=1.0, candidates=2)


def test_epsilon_of_a_full_batch_against_the_gaussian_formula() -> None:
    def excess(eps: float, mu: float, delta: float) -> float:
        told = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        return float(told) - delta

    for noise, delta in ((2.0, 1e-5), (0.4, 1e-3), (30.0, 1e-6)):
        expected = brentq(excess, 1e-6, 80.0, args=(math.sqrt(9) / noise, delta), xtol=1e-10)
        assert epsilon(Training(9, 1.0, noise), delta) == pytest.approx(expected, abs=1e-6)
    assert epsilon(Training(1, 1.0, 1e5), 0.1) == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"q": 0.0}, "q = 1"),
        ({"q": 1.5}, "q = 1"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"participation": "guessed"}, "'secret' or 'known'"),
        ({"records_of_person": 0}, "records_of_person"),
    ],
)
def test_a_training_checks_itself(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Training(**({"rounds": 5, "q": 0.1, "noise_multiplier": 1.0} | changes))  # type: ignore[arg-type]


def test_what_is_asked_is_checked() -> None:
    training = Training(5, 0.1, 1.0)
    for candidates in (1, 0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match="candidates"):
            success_bound(training, candidates)
    with pytest.raises(InvalidInput, match="delta"):
        epsilon(training, 0.0)
    with pytest.raises(InvalidInput, match="false_positive_rate"):
        true_positive_rate(training, 1.0)
    with pytest.raises(InvalidInput, match="budget"):
        noise_multiplier_for(1.0, rounds=5, q=0.1)
