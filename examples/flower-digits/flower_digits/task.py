"""The model, the data of one client, and the terms that both sides of a run agree on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import UserConfig
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch.nn.functional import cross_entropy

from trilemma.federation.flower import Deployment, Terms, from_verdict
from trilemma.learning import LocalTraining

BATCH = 32
PUBLIC = 97  # digits that no client has: the server evaluates on them


def make_terms(config: UserConfig) -> Terms | None:
    """What the run's configuration asks for; an app in earnest would write it down here."""
    if verdict := str(config.get("verdict", "")):
        return from_verdict(Path(__file__).parent / verdict, make_deployment(config))
    text = str(config.get("protection", "none"))
    if text == "none":
        return None
    if float(config.get("record-clip", 0.0)):
        return Terms.deployed(text, make_deployment(config))
    return Terms.of(
        text,
        metrics=("train_loss",),
        evaluate_metrics=("eval_loss", "eval_acc"),
        threshold=int(config.get("threshold", 0)) or None,
    )


def make_deployment(config: UserConfig) -> Deployment:
    """What this federation runs where nodes train by `local_update`: FedSGD, one batch a round.

    With `record-clip` each record's gradient is clipped to that norm, and a batch is a Poisson
    sample, so that nobody knows whose records are in it.
    """
    clip = float(config.get("record-clip", 0.0)) or None
    nodes, cohort = int(config["nodes"]), int(config["least-nodes"])
    fewest = min(len(records(number, nodes)[1]) for number in range(nodes))
    return Deployment(
        LocalTraining(
            "fedsgd",
            lr=float(config["lr"]),
            batch=BATCH,
            record_clip=clip,
            sampling="poisson" if clip else "fixed",
        ),
        parameters=sum(each.numel() for each in make_model().parameters()),
        clients=nodes,
        cohort=cohort,
        threshold=int(config.get("threshold", 0)) or min(cohort, 2 * cohort // 3 + 1),
        weighting="equal",
        rounds=int(config["rounds"]),
        sampling_rate=BATCH / fewest,
        participation="secret" if clip else "known",
        helpers=1,
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
    images, labels = (each[PUBLIC:][partition::partitions] for each in digits())
    cut = len(labels) // 5
    return images[cut:], labels[cut:], images[:cut], labels[:cut]


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """All images [n, 64] and labels [n]."""
    data = load_digits()
    return torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)


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
    """Loss and accuracy on the last two of `part`, images and labels."""
    *_, images, labels = part
    outputs = model(images)
    return {
        "num-examples": len(labels),
        "eval_loss": cross_entropy(outputs, labels).item(),
        "eval_acc": (outputs.argmax(1) == labels).double().mean().item(),
    }
