"""Six federations so small that everything of them is measured in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

ROUNDS = 4
Scenario = Any  # of either commit


def digits_fedsgd() -> Scenario:
    from trilemma.scenarios.digits import digits

    return replace(digits(clients=4, batch=2), rounds=ROUNDS)


def digits_fedavg() -> Scenario:
    from trilemma import LocalTraining

    training = LocalTraining("fedavg", lr=0.1, steps=3, batch=2, records=6)
    return replace(digits_fedsgd(), local_training=training, server_lr=None)


def table() -> Scenario:
    from trilemma.scenarios.medical_tables import breast_cancer

    return replace(breast_cancer(clients=3, batch=2), rounds=ROUNDS)


def tokens() -> Scenario:
    """Sequences of 6 of 24 tokens, and a transformer of one small layer."""
    import torch
    from torch import nn

    import trilemma

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.head = nn.Embedding(24, 8), nn.Linear(8, 3)
            self.layer = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            read = self.token(given)
            scores: torch.Tensor = self.head(self.layer(read, read, read)[0].mean(1))
            return scores

    inputs = torch.randint(0, 24, (160, 6), generator=torch.Generator().manual_seed(3))
    labels = inputs.sum(1) % 3
    parts = [(inputs[n : n + 40], labels[n : n + 40]) for n in (0, 40, 80, 120)]
    training, loss = trilemma.LocalTraining(batch=2), nn.functional.cross_entropy
    return trilemma.Scenario(Reader(), loss, parts[:3], parts[3], training, rounds=ROUNDS)


def unlike_clients() -> Scenario:
    """Clients that differ in their number of records, and so in weight; two of three a round."""
    scenario = digits_fedsgd()
    records = scenario.pooled()
    clients = [records[first:last] for first, last in ((0, 40), (40, 120), (120, 300))]
    return replace(scenario, clients=clients, cohort=2)


def convolution() -> Scenario:
    from torch import nn

    layers = nn.Conv2d(1, 4, 3, stride=2), nn.Sigmoid(), nn.Flatten(), nn.Linear(36, 10)
    return replace(digits_fedsgd(), model=nn.Sequential(*layers), initialise=None)


SCENARIOS = (digits_fedsgd, digits_fedavg, table, tokens, unlike_clients, convolution)
