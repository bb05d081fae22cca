"""A linear federation whose games are drawn."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining


def scenario(
    sizes: tuple[int, ...] = (100, 100, 100), batch: int = 4, **training: object
) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    data = [
        TensorDataset(torch.rand(n, 6, generator=draw), torch.randint(0, 3, (n,), generator=draw))
        for n in (*sizes, 30)
    ]
    local = LocalTraining(batch=batch, **training)  # type: ignore[arg-type]
    return Scenario(nn.Linear(6, 3), cross_entropy, data[:-1], data[-1], local)
