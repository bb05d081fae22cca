"""The model, the data of one client, and the terms that both sides of a run agree on."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from flwr.app import UserConfig
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch.nn.functional import cross_entropy

from trilemma.federation.flower import Terms

BATCH = 32


def make_terms(config: UserConfig) -> Terms | None:
    """What the run's configuration asks for; an app in earnest would write it down here."""
    text = str(config.get("protection", "none"))
    if text == "none":
        return None
    return Terms.of(
        text,
        metrics=("train_loss",),
        evaluate_metrics=("eval_loss", "eval_acc"),
        threshold=int(config.get("threshold", 0)) or None,
    )


def make_model() -> torch.nn.Module:
    """The same first model on every machine."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )


@cache
def records(partition: int, partitions: int) -> tuple[torch.Tensor, ...]:
    """Train and test records of one client: every `partitions`-th digit, a fifth to test."""
    data = load_digits()
    images = torch.tensor(data.data / 16, dtype=torch.float32)[partition::partitions]
    labels = torch.tensor(data.target)[partition::partitions]
    cut = len(labels) // 5
    return images[cut:], labels[cut:], images[:cut], labels[:cut]


def train(model: torch.nn.Module, part: tuple[torch.Tensor, ...], epochs: int, lr: float) -> float:
    """Plain SGD; the mean loss of the last epoch."""
    images, labels, *_ = part
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(len(labels)), BATCH):
            optimizer.zero_grad()
            loss = cross_entropy(model(images[rows]), labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item() * len(rows)
    return total / len(labels)


@torch.no_grad()
def evaluate(model: torch.nn.Module, part: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    """Loss and accuracy on a client's test records."""
    *_, images, labels = part
    outputs = model(images)
    return {
        "num-examples": len(labels),
        "eval_loss": cross_entropy(outputs, labels).item(),
        "eval_acc": (outputs.argmax(1) == labels).double().mean().item(),
    }
