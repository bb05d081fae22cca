"""A linear federation of unlike clients, and what an adversary sees of its games."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.attacks import KnowledgeLevel
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection


def scenario(sizes: tuple[int, ...] = (80, 120, 100), **training: object) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    data = [
        TensorDataset(torch.rand(n, 6, generator=draw), torch.randint(0, 3, (n,), generator=draw))
        for n in (*sizes, 30)
    ]
    local = LocalTraining(lr=0.5, batch=4, **training)  # type: ignore[arg-type]
    return Scenario(nn.Linear(6, 3), cross_entropy, data[:-1], data[-1], local)


def observer(
    made: Scenario,
    spec: str = "none",
    knows: KnowledgeLevel = "rest",
    rounds: int = 1,
    adversary: Adversary = Adversary.SERVER,
    **more: Any,
) -> Observer:
    arena = Arena.of(made, rounds=rounds)
    return Observer(arena, parse_protection(spec), adversary, knows, seed=3, steps=2, **more)
