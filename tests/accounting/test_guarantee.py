"""What five numbers prove, against closed forms and an attacker that knows all the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.spatial.distance import jensenshannon
from scipy.stats import binom, norm

from trilemma.accounting.guarantee import Guarantee, honest_noises, prove
from trilemma.crypto.neighbourhoods import CORRUPT, neighbourhood
from trilemma.errors import InvalidInput


def ten(**changes: object) -> Guarantee:
    asked = {"clients": 10, "rounds": 150, "threshold": 7, "helpers": 1} | changes
    return prove(**asked)  # type: ignore[arg-type]


def largest_leakage(mu: float) -> float:
    def leakage(n: int) -> float:
        p = float(norm.cdf(norm.ppf(1 / n) + mu))
        return float(jensenshannon([p, 1 - p], [1 / n, 1 - 1 / n], base=2))

    return max(leakage(n) for n in range(2, 200))


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6])
def test_the_noise_of_full_batches_against_scipy(budget: float) -> None:
    mu = brentq(lambda m: largest_leakage(m) - budget, 1e-3, 10)
    found = ten(budget=budget)
    z = math.sqrt(150) / mu
    assert found.training.noise_multiplier == pytest.approx(z, rel=1e-3)
    assert found.noise_per_client == pytest.approx(z / math.sqrt(6), rel=1e-3)
    for size, rate in found.success.items():
        assert rate == pytest.approx(norm.cdf(norm.ppf(1 / size) + mu), rel=2e-3)
    assert found.decision == pytest.approx(norm.cdf(mu / 2), rel=1e-3)
    twice = norm.cdf(norm.ppf(0.01) + 2 * mu)
    assert found.person_of_one_more == pytest.approx(twice, rel=3e-3)
    assert found.leakage <= budget


def test_epsilon_against_the_gaussian_formula() -> None:
    found = ten()
    mu = math.sqrt(150) / found.training.noise_multiplier

    def excess(eps: float) -> float:
        tail = norm.cdf(-mu / 2 - eps / mu)
        return float(norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * tail) - found.delta

    assert found.epsilon == pytest.approx(brentq(excess, 0, 50), abs=1e-6)


def test_the_best_attacker_against_the_noise_that_is_left() -> None:
    """Orthogonal clipped gradients, six honest noises, whole training, exact posterior."""
    found, games = ten(rounds=5), 20_000
    draw = np.random.default_rng(3)
    for size in (2, 10, 100):
        # The sum over rounds is sufficient: mean 5 clips, variance 5 · 6 · (noise per client)².
        noise = draw.normal(scale=found.noise_per_client * math.sqrt(5 * 6), size=(games, size))
        noise[:, 0] += 5.0
        right = int((noise.argmax(axis=1) == 0).sum())
        assert binom.sf(right - 1, games, found.success[size]) > 1e-3
        assert right / games > 0.7 * found.success[size]
    # With the seventh noise left out, which the curious client takes away, it would be too many.
    less = draw.normal(scale=found.noise_per_client * math.sqrt(5 * 2), size=(games, 2))
    less[:, 0] += 5.0
    assert binom.sf(int((less.argmax(axis=1) == 0).sum()) - 1, games, found.success[2]) < 1e-9


def test_noise_grows_as_the_root_of_the_rounds_and_falls_with_honest_clients() -> None:
    by_rounds = {row.rounds: row for row in ten().by_rounds}
    for rounds in (1, 50, 1000):
        alone = ten(rounds=rounds)
        assert by_rounds[rounds].noise_multiplier == pytest.approx(
            alone.training.noise_multiplier, rel=3e-4
        )
        assert by_rounds[rounds].noise_per_client == pytest.approx(
            alone.noise_per_client, rel=3e-4
        )
    assert ten(transport="plain").noise_per_client == pytest.approx(
        ten().noise_per_client * math.sqrt(6), rel=1e-6
    )


def test_honest_noises_leave_out_helpers_and_those_a_server_may_keep_out() -> None:
    assert honest_noises("secret-sharing", 10, 7, 1) == 6
    assert honest_noises("paillier", 10, 7, 0) == 7
    assert honest_noises("plain", 10, 7, 3) == 1
    graph = neighbourhood(1000, 667, CORRUPT)
    assert graph is not None
    # The graph is made for 100 helpers: as many are left out, and no more may help.
    for helpers in (1, 100):
        assert honest_noises("secret-sharing", 1000, 667, helpers) == 667 - 100 - graph.missing
    with pytest.raises(InvalidInput, match="100 helpers at most, got 101"):
        honest_noises("secret-sharing", 1000, 667, 101)


def test_poisson_batches_and_a_whole_client() -> None:
    secret = ten(records=150, batch=4, participation="secret")
    assert secret.training.q == 4 / 150
    assert secret.training.noise_multiplier == pytest.approx(0.614, abs=2e-3)
    known = ten(records=150, batch=4)
    assert known.training.noise_multiplier > secret.training.noise_multiplier
    assert not secret.by_rounds
    client = ten(algorithm="fedavg")
    assert client.level == "client"
    assert client.training.noise_multiplier == ten().training.noise_multiplier


def test_two_records_of_a_person_need_twice_the_noise() -> None:
    assert ten(person=2).training.noise_multiplier == pytest.approx(
        2 * ten().training.noise_multiplier, rel=3e-4
    )


def test_an_uneven_prior_is_a_smaller_number_of_candidates() -> None:
    """Two records at odds 0.3 : 0.7 against the best guess; brute force over thresholds."""
    mu = math.sqrt(150) / ten().training.noise_multiplier
    best = -minimize_scalar(
        lambda t: -(0.7 * norm.cdf(mu / 2**0.5 + t) + 0.3 * norm.cdf(mu / 2**0.5 - t)),
        bounds=(-5, 5),
        method="bounded",
    ).fun
    assert best <= norm.cdf(norm.ppf(0.7) + mu)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clients": 0}, "clients must be at least 1, got 0"),
        ({"clients": 10**9, "threshold": None}, "1,000,000 at most"),
        ({"rounds": -3}, "rounds must be at least 1, got -3"),
        ({"budget": 2.0}, "budget"),
        ({"threshold": 11}, "between 1 and the 10 clients, got 11"),
        ({"helpers": -1}, "helpers must not be negative, got -1"),
        ({"helpers": 7}, "raise the threshold, or lower helpers"),
        ({"transport": "telepathy"}, "got 'telepathy'"),
        ({"transport": "paillier"}, "holds the key"),
        ({"batch": 4}, "needs records"),
        ({"batch": 200, "records": 150}, "must not exceed the 150 records, got 200"),
        ({"participation": "secret"}, "cannot be secret"),
        ({"algorithm": "fedavg", "batch": 4}, "leave batch = 4 out"),
        ({"algorithm": "sgd"}, "got 'sgd'"),
        ({"person": 0}, "at least 1, got 0"),
    ],
)
def test_bad_numbers_are_refused_with_the_way_out(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        ten(**changes)
