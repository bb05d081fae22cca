from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats
from tests.federation.small import costs_of, federation, trained

from trilemma.errors import InvalidInput
from trilemma.federation.round_timing import RoundCosts, Spent
from trilemma.federation.training import History, Round
from trilemma.game.costs import compare, fewest_rounds, median_estimate, paired_estimate
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)
PLAIN = Spent(1e6, 2e6, 1.0, 0.5, 0.5, 0.0)
SLOW = [Spent(3e6, 6e6, 1.0, 2.0, 1.0, extra) for extra in (2.0, 2.0, 2.0, 2.0, 7.0, 7.0)]
ROUNDS = RoundCosts((PLAIN,) * 6, tuple(SLOW))


def history(metric: float, *, clients: tuple[int, ...] = (0, 1)) -> History:
    rounds = (Round(0, clients, None, None), Round(1, clients, 0.5, metric))
    return History(rounds, torch.zeros(1), (metric, metric / 2), None)


def test_the_efficiency_reduction_is_the_ratio_of_durations() -> None:
    """3·10⁶ bits at 10⁶ a second are 3 s, and 9·10⁶ are 9; training takes 1 s in both."""
    plain, shielded = [history(0.9), history(0.8)], [history(0.8), history(0.5)]
    costs = compare("x", plain, shielded, ROUNDS, bandwidth=1e6)
    assert costs.unprotected.duration(1e6) == 5.0
    assert costs.protected.bits == 9e6
    assert costs.efficiency_reduction.value == pytest.approx(15 / 5 - 1)
    assert costs.efficiency_reduction.low == pytest.approx(15 / 5 - 1)
    assert costs.efficiency_reduction.high == pytest.approx(20 / 5 - 1)
    assert costs.utility_loss.value == pytest.approx(0.2)
    assert [item.value for item in costs.client_utility_loss] == pytest.approx([0.2, 0.1])
    assert (costs.unprotected_metric, costs.protected_metric) == pytest.approx((0.85, 0.65))
    assert json.loads(json.dumps(costs.as_json()))["protected"]["finish"] == 2.0


def answered(right: int, of: int = 200) -> History:
    scores = (torch.arange(of) < right).float()
    metric = float(scores.mean())
    rounds = (Round(0, (0, 1), None, None), Round(1, (0, 1), 0.5, metric))
    return History(rounds, torch.zeros(1), (metric,), None, scores, (scores,))


@pytest.mark.parametrize(
    ("protection", "shown"), [("randomization:variance=1e-3", 0.8625), ("secret-sharing", 0.86)]
)
def test_accuracies_that_no_noise_hides_are_in_whole_points(protection: str, shown: float) -> None:
    plain, other = [answered(187), answered(188)], [answered(172), answered(173)]
    costs = compare(protection, plain, other, ROUNDS)
    assert costs.unprotected_metric == 0.94
    assert costs.protected_metric == pytest.approx(shown)
    exact = paired_estimate(
        [0.075] * 2, by_record=np.tile(np.repeat([0.0, 1.0, 0.0], [172, 15, 13]), (2, 1))
    )
    for loss in (costs.utility_loss, *costs.client_utility_loss):
        assert loss.value in (0.07, 0.08)
        assert 0 <= exact.low - loss.low < 0.02
        assert 0 <= loss.high - exact.high < 0.02
        for end in (loss.low, loss.high):
            assert end * 100 == pytest.approx(round(end * 100))


def test_the_interval_over_seeds_is_students() -> None:
    differences = np.random.default_rng(3).normal(0.1, 0.05, 7)
    estimate = paired_estimate(differences.tolist(), 0.9)
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))


def test_five_equal_values_are_no_certainty() -> None:
    """300 records of which none differs: the rate of differing ones may still be 1 in 100."""
    estimate = paired_estimate([0.0] * 5, by_record=np.zeros((5, 300)))
    assert estimate.value == 0
    assert 2 / 300 < estimate.high < stats.binomtest(0, 300).proportion_ci(0.975).high
    assert estimate.low == -estimate.high


def test_records_alone_give_the_interval_of_paired_answers() -> None:
    """Seeds that agree leave Bonett and Price's interval for 9 and 4 changed answers of 100."""
    table = np.tile(np.repeat([1.0, -1.0, 0.0], [9, 4, 87]), (3, 1))
    estimate = paired_estimate([0.05] * 3, by_record=table)
    p, q, n = 10 / 102, 5 / 102, 102
    reach = stats.norm.ppf(0.975) * math.sqrt((p + q - (p - q) ** 2) / n)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(reach, rel=0.03)


@pytest.mark.parametrize(
    ("seed_sd", "changed"), [(0.0, 0.01), (0.0, 0.1), (0.01, 0.05), (0.03, 0.02)]
)
def test_the_interval_covers_seeds_and_records(seed_sd: float, changed: float) -> None:
    """Fresh seeds and fresh test records: the mean over all of both lies in 95 % of intervals.

    A record's answer is changed by protection with its own probability, worse in seeds that drew
    badly.
    """
    draw = np.random.default_rng(7)
    seeds, records, repeats = 5, 200, 1500
    truth, held, alone = 0.4 * changed, 0, 0
    for _ in range(repeats):
        prone = draw.beta(0.3, 0.3 * (1 / changed - 1), records)  # a few records change often
        worse = draw.random(records) < 0.7
        flip = draw.random((seeds, records)) < prone
        table = np.where(flip, np.where(worse, 1.0, -1.0), 0.0)
        shift = draw.normal(0, seed_sd, seeds)
        table = np.where(
            draw.random((seeds, records)) < np.abs(shift)[:, None], np.sign(shift)[:, None], table
        )
        means = table.mean(axis=1).tolist()
        mean_truth = truth * (1 - math.sqrt(2 / math.pi) * seed_sd)
        held += mean_truth in paired_estimate(means, by_record=table)
        alone += mean_truth in paired_estimate(means)
    spread = 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert held / repeats > 0.95 - spread, (held / repeats, alone / repeats)
    if (seed_sd, changed) == (0.0, 0.1):
        assert alone / repeats < 0.95 - spread, "seeds alone forget the test records"


def test_the_median_lies_between_order_statistics() -> None:
    draw = np.random.default_rng(2)
    for count, confidence in ((6, 0.95), (9, 0.9), (25, 0.95), (8, 0.99)):
        values = draw.lognormal(0.0, 1.5, (4000, count))
        held = sum(1.0 in median_estimate(row.tolist(), confidence) for row in values) / 4000
        assert held > confidence - 3 * math.sqrt(confidence * (1 - confidence) / 4000)
        ranks = median_estimate([float(k) for k in range(count)], confidence)
        one_more = stats.binom.cdf(ranks.low + 1, count, 0.5)
        assert 2 * one_more > 1 - confidence, "no tighter one holds"


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_the_fewest_rounds_are_enough_and_one_less_is_not(confidence: float) -> None:
    fewest = fewest_rounds(confidence)
    assert 2.0 ** (1 - fewest) <= 1 - confidence + 1e-12 < 2.0 ** (2 - fewest)
    with pytest.raises(InvalidInput, match=f"at least {fewest} rounds, got {fewest - 1}"):
        median_estimate([1.0] * (fewest - 1), confidence)


def test_trainings_that_are_no_pairs_are_refused() -> None:
    one = [history(0.5), history(0.5)]
    for bad in ([history(0.5, clients=(0, 2))] * 2, one[:1]):
        with pytest.raises(InvalidInput, match="are not pairs"):
            compare("x", one, bad, ROUNDS)
    with pytest.raises(InvalidInput, match="at least 2 seeds, got 1"):
        compare("x", one[:1], one[:1], ROUNDS)
    with pytest.raises(InvalidInput, match="bandwidth"):
        compare("x", one, one, ROUNDS, bandwidth=0.0)
    with pytest.raises(InvalidInput, match="confidence"):
        compare("x", one, one, ROUNDS, confidence=1.0)


def test_no_protection_costs_nothing_and_noise_costs_utility() -> None:
    scenario = federation(FEDSGD)
    noise = Protection((Randomization(4.0),))
    plain, noisy = (
        [
            trained(
                scenario, value, rounds=25, seed=seed, weights=fresh_weights(scenario, [seed])[0]
            )
            for seed in range(8)
        ]
        for value in (Protection(), noise)
    )
    nothing = compare("none", plain, plain, costs_of(scenario, Protection(), rounds=6))
    assert nothing.utility_loss.low == nothing.utility_loss.high == 0
    assert nothing.efficiency_reduction.low == nothing.efficiency_reduction.high == 0
    assert nothing.unprotected_metric > 0.7
    lossy = compare(noise.describe(), plain, noisy, costs_of(scenario, noise, rounds=6))
    assert lossy.utility_loss.low > 0
    assert len(lossy.client_utility_loss) == 3
    assert all(item.value > 0 for item in lossy.client_utility_loss)
    alone = paired_estimate([a.metric - b.metric for a, b in zip(plain, noisy, strict=True)])
    assert lossy.utility_loss.low < alone.low, "60 test records are a sample, too"
