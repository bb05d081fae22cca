"""Five clients of 60 coordinates, and protections of every kind."""

from __future__ import annotations

import torch

from trilemma.entropy import Seeded
from trilemma.protection.round_info import RoundInfo

CLIENTS, SIZE = 5, 60


PAILLIER = "paillier:bits=2048,max_weight=100"


TEXTS = [
    "none",
    "randomization:variance=0.0001,clip=0.3",
    "compression:keep=0.3",
    "compression:keep=0.3,unbiased=false",
    "top-k:keep=0.2",
    "secret-sharing:bound=0.1",
    "compression:keep=0.5+secret-sharing:bound=0.1",
    "compression:keep=0.5+randomization:variance=0.0001",
    "randomization:variance=0.0001,clip=0.3+compression:keep=0.5",
    "randomization:variance=0.0001+top-k:keep=0.2",
    "secret-sharing:clip_range=2.0,max_weight=100",
    "compression:keep=0.5+secret-sharing:ring_bits=64,precision_bits=24",
    "randomization:variance=0.0001,clip=0.3+compression:keep=0.5+secret-sharing",
    PAILLIER,
    f"{PAILLIER},mode=blind",
    f"compression:keep=0.5+randomization:variance=0.0001+{PAILLIER},clip_range=2.0",
]


def updates(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return (torch.rand((CLIENTS, SIZE), generator=generator, dtype=torch.float64) - 0.5).to(dtype)


def a_round(number: int = 0) -> RoundInfo:
    return RoundInfo.new(range(CLIENTS), Seeded(4), number=number, threshold=3)


def some_weights(text: str) -> list[int]:
    return [1] * CLIENTS if "bound" in text else [3, 1, 4, 1, 5]
