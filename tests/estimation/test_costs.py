from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.federation.small import federation
from torch.nn.functional import cross_entropy

from trilemma.errors import InvalidInput
from trilemma.estimation.costs import (
    compare,
    measure_costs,
    paired_estimate,
    train_seeds,
)
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.paper_bounds import paper_bounds, update_profile
from trilemma.federation.training import Exchange, History, Round
from trilemma.learning import LocalTraining
from trilemma.protections.protection import Protection
from trilemma.protections.transcripts import Seconds
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression, LayerCompression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transforms.top_k import TopK
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.updates import Profile

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)


def history(
    metric: float, *, train: float, bits: int, seconds: Seconds, clients: tuple[int, ...] = (0, 1)
) -> History:
    exchange = Exchange((bits, bits), (2 * bits, 2 * bits), seconds)
    first = Round(0, clients, train, exchange, 0.5, metric)
    twin = Round(1, clients, train, None, 0.5, metric)
    return History((first, twin), torch.zeros(1), (metric, metric / 2), None)


def test_the_efficiency_reduction_is_the_ratio_of_durations() -> None:
    """3·10⁶ bits at 10⁶ a second are 3 s, and 9·10⁶ are 9; training takes 1 s in both."""
    plain = [
        history(value, train=1.0, bits=1_000_000, seconds=Seconds(0.5, 0.5, 0.0))
        for value in (0.9, 0.8)
    ]
    shielded = [
        history(value, train=1.0, bits=3_000_000, seconds=Seconds(2.0, 1.0, extra))
        for value, extra in ((0.8, 2.0), (0.5, 7.0))
    ]
    costs = compare("x", plain, shielded, bandwidth=1e6)
    assert costs.unprotected.seconds == 2.0
    assert costs.unprotected.bits == 3e6
    assert costs.unprotected.duration(1e6) == 5.0
    assert costs.protected.bits == 9e6
    assert costs.efficiency_reduction.value == pytest.approx((15 / 5 + 20 / 5) / 2 - 1)
    assert costs.utility_loss.value == pytest.approx(0.2)
    assert [each.value for each in costs.client_utility_loss] == pytest.approx([0.2, 0.1])
    assert (costs.unprotected_metric, costs.protected_metric) == pytest.approx((0.85, 0.65))
    assert json.loads(json.dumps(costs.as_json()))["protected"]["reveal"] == 4.5


def test_the_interval_is_students() -> None:
    differences = np.random.default_rng(3).normal(0.1, 0.05, 7)
    estimate = paired_estimate(differences.tolist(), 0.9)
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.9)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))


def test_trainings_that_are_no_pairs_are_refused() -> None:
    made = {"train": 1.0, "bits": 8, "seconds": Seconds(1.0, 1.0, 1.0)}
    one: list[History] = [history(0.5, **made), history(0.5, **made)]  # type: ignore[arg-type]
    other = [history(0.5, **made, clients=(0, 2))] * 2  # type: ignore[arg-type]
    for bad in (other, one[:1]):
        with pytest.raises(InvalidInput, match="are not pairs"):
            compare("x", one, bad)
    with pytest.raises(InvalidInput, match="at least 2 seeds, got 1"):
        compare("x", one[:1], one[:1])
    with pytest.raises(InvalidInput, match="bandwidth"):
        compare("x", one, one, bandwidth=0.0)
    with pytest.raises(InvalidInput, match="confidence"):
        compare("x", one, one, confidence=1.0)


def test_no_protection_costs_nothing_and_noise_costs_utility() -> None:
    scenario = federation(FEDSGD)
    plain = train_seeds(scenario, Protection(), rounds=25, seeds=range(8))
    nothing = measure_costs(scenario, Protection(), rounds=25, seeds=range(8), unprotected=plain)
    assert nothing.utility_loss.value == nothing.utility_loss.low == nothing.utility_loss.high == 0
    assert nothing.protected.bits == nothing.unprotected.bits
    assert nothing.bounds == ()
    assert nothing.unprotected_metric > 0.7
    noisy = measure_costs(
        scenario, Protection((Randomization(4.0),)), rounds=25, seeds=range(8), unprotected=plain
    )
    assert noisy.utility_loss.low > 0
    assert len(noisy.client_utility_loss) == 3
    assert all(each.value > 0 for each in noisy.client_utility_loss)
    assert noisy.protected.bits == noisy.unprotected.bits


@pytest.mark.parametrize(
    "transport",
    [SecretSharing(clip_range=2.0), Paillier(bits=256, insecure=True, clip_range=2.0)],
    ids=["sharing", "paillier"],
)
def test_cryptography_costs_bits_and_seconds_and_no_utility(transport: Any) -> None:
    costs = measure_costs(
        federation(FEDSGD), Protection((), transport), rounds=4, seeds=(3, 8), real_rounds=2
    )
    assert costs.utility_loss.value == pytest.approx(0.0, abs=0.02)  # one of 60 records
    assert costs.protected.bits > costs.unprotected.bits
    assert costs.protected.protect > costs.unprotected.protect
    assert costs.efficiency_reduction.value > 0
    assert costs.bounds[0].utility_loss == 0.0
    assert costs.bounds[0].efficiency_reduction == pytest.approx(1.0)
    assert costs.protection == transport.describe()


def test_compression_saves_bits() -> None:
    costs = measure_costs(
        federation(FEDSGD), Protection((Compression(0.25),)), rounds=9, seeds=(1, 2)
    )
    overhead = 8 * 57
    share = (costs.protected.bits_up - overhead) / (costs.unprotected.bits_up - overhead)
    assert 0.1 < share < 0.4  # a quarter of 39 coordinates, over 18 rounds


def test_the_papers_bounds_by_hand() -> None:
    profile = Profile(3, delta=0.5, sigma=2.0)
    (thinned,) = paper_bounds(Protection((Compression(0.9),)), profile, c4=2.0, c5=4.0)
    assert thinned.utility_loss == pytest.approx(2.0 * (1 - 0.9**3))
    assert thinned.efficiency_reduction == pytest.approx(4.0 * (1 - 0.9**3))
    layers = LayerCompression(((0.9, 1), (0.8, 1), (1.0, 1)))
    (uneven,) = paper_bounds(Protection((layers,)), profile)
    assert uneven.utility_loss == pytest.approx(1 - 0.9 * 0.8)
    (noisy,) = paper_bounds(Protection((Randomization(0.1),)), profile)
    assert noisy.utility_loss == pytest.approx(1.5 * 0.1 * math.sqrt(3 / 2.0**4))
    (masked,) = paper_bounds(Protection((BoundedMask(1.0),)), profile)
    assert masked.utility_loss == 0.0
    assert masked.efficiency_reduction == pytest.approx(1 - (0.5 / 1.0) ** 3)
    (narrow,) = paper_bounds(Protection((BoundedMask(0.4),)), profile)
    assert narrow.efficiency_reduction == 0.0
    two = paper_bounds(Protection((Compression(0.9),), SecretSharing()), profile)
    assert [each.mechanism for each in two] == ["compression", "secret-sharing"]
    assert paper_bounds(Protection((Compression(1.0),)), profile)[0].utility_loss == 0.0
    assert paper_bounds(Protection((TopK(0.5),)), profile) == ()


def test_the_profile_is_that_of_fresh_updates() -> None:
    """δ and the mean σ of our sample against those of another, larger one made by autograd."""
    scenario = federation(FEDSGD)
    profile = update_profile(scenario)
    start = scenario.task.layout.unflatten(fresh_weights(scenario, [0])[0])
    scenario.model.load_state_dict(start)
    draw = np.random.default_rng(0)
    rows = []
    for index in range(300):
        records = scenario.records[index % 3]
        batch = records[torch.from_numpy(draw.choice(len(records), 6, replace=False))]
        loss = cross_entropy(scenario.model(batch.inputs), batch.labels)
        grads = torch.autograd.grad(loss, list(scenario.model.parameters()))
        rows.append(torch.cat([each.reshape(-1) for each in grads]).numpy())
    expected = np.stack(rows).std(axis=0, ddof=1)
    assert profile.parameters == 39
    assert isinstance(profile.sigma, np.ndarray)
    assert profile.sigma.mean() == pytest.approx(expected.mean(), rel=0.1)
    assert profile.delta == pytest.approx(np.ptp(np.stack(rows), axis=0).max() / 2, rel=0.35)
