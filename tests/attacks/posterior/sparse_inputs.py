"""A federation whose inputs are often exactly zero."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining


def sparse(batch: int = 4, **training: object) -> Scenario:
    """Inputs of which most values are exactly zero."""
    draw = torch.Generator().manual_seed(0)

    def data(size: int) -> TensorDataset:
        values = torch.rand(size, 20, generator=draw)
        kept = torch.rand(size, 20, generator=draw) < 0.25
        return TensorDataset(values * kept, torch.randint(0, 3, (size,), generator=draw))

    local = LocalTraining(batch=batch, **training)  # type: ignore[arg-type]
    return Scenario(nn.Linear(20, 3), cross_entropy, [data(90), data(90)], data(40), local)
