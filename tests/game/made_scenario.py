"""A scenario of two clients, with changes."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.game.scenario import Scenario


def dataset(size: int = 6, low: float = -1.0, high: float = 3.0, seed: int = 0) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.rand(size, 5, generator=draw) * (high - low) + low
    inputs[0, 0], inputs[0, 1] = low, high
    return TensorDataset(inputs, torch.randint(0, 3, (size,), generator=draw))


def make(**changes: Any) -> Scenario:
    settings: dict[str, Any] = {
        "model": nn.Linear(5, 3),
        "loss": cross_entropy,
        "clients": [dataset(), dataset(seed=1)],
        "test": dataset(seed=2),
    }
    return Scenario(**{**settings, **changes})
