import math

import numpy as np
import pytest

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.game.estimates import client_leakage, mean_leakage, success_rate


def entropy_leakage(p: float) -> float:
    """H_0(p) from entropies: JS = h(mixture) - mean of h, in bits. Independent of our formula."""

    def h(q: float) -> float:
        return 0.0 if q in (0, 1) else -q * math.log2(q) - (1 - q) * math.log2(1 - q)

    return math.sqrt(max(0.0, h(p / 2) - h(p) / 2))


def test_one_client_is_h_of_the_exact_interval() -> None:
    rate = success_rate(30, 100)
    leak = client_leakage(30, 100)
    assert leak.value == pytest.approx(entropy_leakage(0.3))
    assert leak.low == pytest.approx(entropy_leakage(rate.low))
    assert leak.high == pytest.approx(entropy_leakage(rate.high))
    assert mean_leakage([30], 100) == leak


# Rates of clients: equal, spread, extreme, and near both ends.
RATES = [
    [0.5] * 4,
    [0.98] * 10,
    [0.02] * 10,
    [0.1, 0.9],
    [0.0, 1.0],
    [1.0, 1.0, 0.3],
    [0.05, 0.2, 0.5, 0.8, 0.99],
    [0.0, 0.0, 0.0, 0.4],
]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("trials", [8, 50])
@pytest.mark.parametrize("kappa", [0.0, 0.01])
def test_intervals_cover_the_true_leakage_at_least_as_often_as_promised(
    rates: list[float], trials: int, kappa: float
) -> None:
    rng = np.random.default_rng(7)
    truth = [bernoulli_leakage(p, kappa) for p in rates]
    repeats = 200
    covered = {"mean": 0, "client": 0}
    for _ in range(repeats):
        hits = [int(h) for h in rng.binomial(trials, rates)]
        mean = mean_leakage(hits, trials, confidence=0.9, kappa=kappa)
        client = client_leakage(hits[0], trials, confidence=0.9, kappa=kappa)
        assert mean.low <= mean.value <= mean.high
        covered["mean"] += float(np.mean(truth)) in mean
        covered["client"] += truth[0] in client
    # 0.9 less three standard errors of 200 repeats.
    assert min(covered.values()) / repeats >= 0.9 - 3 * math.sqrt(0.09 / repeats)


def test_the_mean_interval_is_not_much_wider_than_the_pooled_one() -> None:
    """With equal rates the envelopes may cost little: else nobody could use the interval."""
    many = mean_leakage([19] * 10, 20)
    pooled = client_leakage(190, 200)
    assert many.high - many.low < 2 * (pooled.high - pooled.low)


def test_the_envelope_bounds_every_mixture_of_two_rates() -> None:
    for a in np.linspace(0, 1, 11):
        for b in np.linspace(0, 1, 11):
            middle = (bernoulli_leakage(float(a)) + bernoulli_leakage(float(b))) / 2
            # A million units a client: the interval is the envelope itself.
            hits = [round(a * 10**6), round(b * 10**6)]
            assert middle in mean_leakage(hits, 10**6)
