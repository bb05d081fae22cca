"""One update through one transform."""

from __future__ import annotations

import torch

from trilemma.entropy import Seeded, System
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import SparseUpdate, Transform

LEAST_P = 1e-5  # fixed seeds, or a false alarm in 100,000 runs


def a_round(seed: int = 1, clients: int = 3) -> RoundInfo:
    return RoundInfo("test", 0, tuple(range(clients)), 1, mask_seed=seed)


def apply(
    transform: Transform,
    values: torch.Tensor,
    client: int = 0,
    info: RoundInfo | None = None,
    entropy: Seeded | System | None = None,
) -> SparseUpdate:
    return transform.apply(
        SparseUpdate(values), client=client, round=info or a_round(), entropy=entropy or Seeded(7)
    )


def some_values(size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype)
