from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.special import ndtr, ndtri
from scipy.stats import binom, norm

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.deployment.nodes.round_events import Event, epsilon_of, leakage_of
from trilemma.errors import InvalidInput

SAMPLED = Event(0.8, 60, 0.05, "secret", "record")
OTHER = Event(1.1, 40, 0.02, "secret", "record")
WHOLE = Event(6.0, 3)
DELTA = 1e-5


def accountant(*events: Event) -> PLDAccountant:
    """dp-accounting's own composition."""
    made = PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=5e-4
    )
    for event in events:
        gaussian = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        made.compose(dp_accounting.PoissonSampledDpEvent(event.q, gaussian), event.rounds)
    return made


def guessed(made: PLDAccountant, candidates: int) -> float:
    epsilons = np.linspace(-2, 6, 100)
    deltas = made.get_delta(epsilons.tolist())
    return float((np.exp(epsilons) / candidates + deltas).min())


def test_two_runs_of_unsampled_rounds_are_one_gaussian() -> None:
    events = [Event(2.0, 3), Event(4.0, 8), Event(2.0, 5)]
    mu = math.sqrt(8 / 4 + 8 / 16)
    epsilon = epsilon_of(events, DELTA)
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(DELTA, rel=1e-6)
    for candidates in (2, 100):
        success = ndtr(ndtri(1 / candidates) + mu)
        expected = bernoulli_leakage(float(success), 1 / candidates)
        assert leakage_of(events, candidates) == pytest.approx(expected, abs=1e-9)


def test_mixed_events_add_up_as_the_accountant_has_it() -> None:
    oracle = accountant(SAMPLED, OTHER, WHOLE)
    events = [SAMPLED, WHOLE, OTHER]
    expected = oracle.get_epsilon(DELTA)
    assert expected <= epsilon_of(events, DELTA) + 1e-6 < expected + 2e-3
    success = guessed(oracle, 100)
    leaked = leakage_of(events, 100)
    assert leaked == pytest.approx(bernoulli_leakage(success, 1 / 100), abs=1e-3)
    assert leakage_of(events) > leaked


def test_the_supremum_holds_for_every_line_up() -> None:
    events = [SAMPLED, OTHER]
    bound = leakage_of(events)
    each = [leakage_of(events, candidates) for candidates in (2, 5, 10, 38, 1000)]
    assert max(each) <= bound < max(each) + 0.03


def test_the_order_and_the_parts_of_rounds_play_no_part() -> None:
    parts = [Event(0.8, 20, 0.05, "secret"), OTHER, Event(0.8, 40, 0.05, "secret", "record")]
    assert epsilon_of(parts, DELTA) == epsilon_of([SAMPLED, OTHER], DELTA)


def test_known_participation_costs_more_than_secret_and_less_than_every_round() -> None:
    q, rounds, z = 0.05, 60, 0.8
    secret, known, always = (
        [Event(z, rounds, q, "secret")],
        [Event(z, rounds, q, "known")],
        [Event(z, rounds)],
    )
    assert epsilon_of(secret, DELTA) < epsilon_of(known, DELTA) < epsilon_of(always, DELTA)
    mixed = [*known, Event(50.0)]
    counts = np.arange(rounds + 1)
    mus = np.sqrt(counts / z**2 + 1 / 50**2)
    epsilon = epsilon_of(mixed, DELTA)
    deltas = norm.cdf(mus / 2 - epsilon / mus) - math.exp(epsilon) * norm.cdf(
        -mus / 2 - epsilon / mus
    )
    assert binom.pmf(counts, rounds, q) @ deltas == pytest.approx(DELTA, rel=2e-2)


def test_rounds_without_noise_cost_everything_and_no_rounds_nothing() -> None:
    assert epsilon_of([SAMPLED, Event(0.0)], DELTA) == math.inf
    assert leakage_of([SAMPLED, Event(0.0)]) == 1.0
    assert epsilon_of([], DELTA) == 0.0
    assert leakage_of([]) == 0.0


def test_little_noise_ends_at_once_and_on_the_safe_side() -> None:
    little = [Event(0.01, 100, 0.01, "secret"), SAMPLED]
    mu = math.sqrt(100 / 0.01**2 + SAMPLED.rounds / SAMPLED.noise_multiplier**2)
    assert epsilon_of(little, DELTA) > mu**2 / 4
    assert leakage_of(little, 100) <= bernoulli_leakage(1.0, 1 / 100)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"noise_multiplier": -1.0}, "z must be positive"),
        ({"noise_multiplier": math.nan}, "z must be positive"),
        ({"noise_multiplier": False}, "z must be a number, got False"),
        ({"noise_multiplier": "1"}, "z must be a number, got '1'"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 1.0}, "rounds must be a whole number"),
        ({"q": 0.0}, "q .* must be positive"),
        ({"q": 1.5}, "q .* must lie in"),
        ({"participation": "both"}, "participation must be 'secret' or 'known', got 'both'"),
        ({"level": "person"}, "level must be 'record' or 'client', got 'person'"),
    ],
)
def test_an_event_checks_itself(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Event(**{"noise_multiplier": 1.0, **fields})
