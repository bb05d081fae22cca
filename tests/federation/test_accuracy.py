"""What training reaches, over seeds: against central training and a reference."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest
import torch
from tests.federation.small import trained
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining
from trilemma.protection.specs import parse_protection
from trilemma.scenarios.digits import digits
from trilemma.scenarios.networks import uniform_weights


def central_accuracy(seed: int, epochs: int) -> float:
    """Plain SGD on the pooled records, with torch's own loader-free loop."""
    torch.manual_seed(seed)
    scenario = digits(seed=seed)
    pool, test = scenario.pooled(), scenario.test_records
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
    uniform_weights(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(pool)), 30):
            optimiser.zero_grad()
            loss = cross_entropy(model(pool.inputs[rows]), pool.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    with torch.no_grad():
        right = model(test.inputs).argmax(1) == test.labels
    return float(right.float().mean())


def test_fedavg_reaches_a_centrally_trained_model() -> None:
    """10 clients, 5 local epochs of 5 steps, 12 rounds, against 20 epochs on all the records."""
    local = LocalTraining("fedavg", lr=1.0, steps=25, batch=30, records=150)
    federated, central = [], []
    for seed in range(3):
        scenario = digits(seed=seed).with_local_training(
            algorithm=local.algorithm, lr=1.0, steps=25, batch=30, records=150
        )
        weights = fresh_weights(scenario, [seed])[0]
        history = trained(scenario, rounds=12, seed=seed, weights=weights, evaluate_every=12)
        federated.append(history.metric)
        central.append(central_accuracy(seed, epochs=20))
    assert fmean(central) > 0.93
    assert fmean(federated) > fmean(central) - 0.02


REFERENCE = {
    "none": 0.945,
    "randomization:variance=2.5e-3": 0.937,
    "randomization:variance=1e-2": 0.908,
    "randomization:variance=9e-2": 0.731,
    "compression:keep=0.1": 0.940,
    "compression:keep=0.05": 0.931,
    "compression:keep=0.02": 0.865,
}


@pytest.mark.slow
@pytest.mark.parametrize("spec", REFERENCE)
def test_reference_accuracies_reproduce(spec: str) -> None:
    """FedSGD, 4 clients, batch 16, 150 rounds at rate 1: within one deviation over the seeds."""
    reached = accuracies(spec, seeds=16)
    assert abs(fmean(reached) - REFERENCE[spec]) <= stdev(reached)


@pytest.mark.slow
def test_common_places_cost_utility() -> None:
    """With common places a coordinate has variance (1-ρ)/ρ · u² whatever the number of clients.

    Paired by seed: the same data, batches and start, at the ρ where it costs most.
    """
    own = accuracies("compression:keep=0.02", seeds=6)
    fine = "secret-sharing:clip_range=1024.0,ring_bits=64,precision_bits=24"
    common = accuracies(f"compression:keep=0.02+{fine}", seeds=6)
    assert all(a > b + 0.05 for a, b in zip(own, common, strict=True))


def accuracies(spec: str, seeds: int) -> list[float]:
    protection, reached = parse_protection(spec), []
    for seed in range(seeds):
        scenario = digits(clients=4, batch=16, seed=seed).with_local_training(lr=1.0)
        weights = fresh_weights(scenario, [seed])[0]
        history = trained(
            scenario,
            protection,
            rounds=150,
            seed=seed,
            weights=weights,
            evaluate_every=150,
            real_rounds=0,
        )
        reached.append(history.metric)
    return reached
