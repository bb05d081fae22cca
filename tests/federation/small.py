"""A federation of three unlike clients, small enough for any test."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.estimation.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.records import Records

SIZES = (8, 12, 20)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def federation(
    local_training: LocalTraining | None = None,
    model: nn.Module | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> Scenario:
    draw = torch.Generator().manual_seed(0)

    def records(count: int) -> Records:
        labels = torch.randint(0, 3, (count,), generator=draw)
        inputs = torch.rand(count, 5, generator=draw)
        inputs[torch.arange(count), labels] += 1.0  # so that there is something to learn
        return Records(inputs, labels)

    return Scenario(
        model or network(),
        cross_entropy,
        [records(size) for size in sizes],
        records(60),
        local_training or LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8),
    )
