"""A task with six records, small enough for any test."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from trilemma.learning import Task


def make(seed: int = 0) -> tuple[Task, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3))
    task = Task(model, cross_entropy, classes=3)
    weights = task.layout.flatten({n: p.detach() for n, p in model.named_parameters()})
    return task, weights, torch.randn(6, 4), torch.randint(0, 3, (6,))
