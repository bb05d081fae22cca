"""The model, the data of one client, and the terms that both sides of a run agree on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import UserConfig
from torch.nn.functional import cross_entropy

from trilemma.deployment.flower import Deployment, Terms, from_verdict, measured_deployment
from trilemma.records.records import Records
from trilemma.scenarios.digits import digits
from trilemma.scenarios.networks import mlp, uniform_weights

BATCH = 32


def make_terms(config: UserConfig) -> Terms | None:
    """What the run's configuration asks for; an app in earnest would write it down here."""
    if name := str(config.get("verdict", "")):
        path = Path(__file__).parent / name
        return from_verdict(path, make_deployment(path, config))
    text = str(config.get("protection", "none"))
    if text == "none":
        return None
    return Terms.of(
        text,
        metrics=("train_loss",),
        evaluate_metrics=("eval_loss", "eval_acc"),
        threshold=int(config.get("threshold", 0)) or None,
    )


def make_deployment(verdict: Path, config: UserConfig) -> Deployment:
    """What this federation is; how its nodes and its server train is the verdict's to say."""
    measured, nodes = measured_deployment(verdict), int(config["nodes"])
    sizes = [len(records(node, nodes)) for node in range(nodes)]
    return replace(
        measured,
        parameters=sum(parameter.numel() for parameter in make_model().parameters()),
        clients=nodes,
        cohort=int(config["least-nodes"]),
        threshold=int(config.get("threshold", 0)) or measured.threshold,
        rounds=int(config["rounds"]),
        sampling_rate=measured.local_training.unit_size / min(sizes),
        total_records=sum(sizes),
    )


def make_model() -> torch.nn.Module:
    """The same first model on every machine."""
    torch.manual_seed(0)
    model = mlp(64, 32, 10)
    uniform_weights(model)
    return model


@cache
def records(partition: int, partitions: int) -> Records:
    """The records of one client: those that `trilemma tune` gives it, with as many clients."""
    return digits(clients=partitions).records[partition]


@cache
def held_out(public: int = 0) -> Records:
    """Digits that no client has, and that the server does not train on."""
    return digits(public=public).test_records


def public_records(terms: Terms | None) -> Records | None:
    """Digits on which the server trains, as many as the verdict says; else none."""
    server = None if terms is None or terms.deployment is None else terms.deployment.server
    if server is None or server.public is None:
        return None
    return digits(public=server.public.number).public_records


def train(model: torch.nn.Module, part: Records, epochs: int, lr: float) -> float:
    """Plain SGD; the mean loss of the last epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(len(part)), BATCH):
            optimizer.zero_grad()
            loss = cross_entropy(model(part.inputs[rows]), part.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item() * len(rows)
    return total / len(part)


@torch.no_grad()
def evaluate(model: torch.nn.Module, part: Records) -> dict[str, Any]:
    """Loss and accuracy on records."""
    outputs = model(part.inputs)
    return {
        "num-examples": len(part),
        "eval_loss": cross_entropy(outputs, part.labels).item(),
        "eval_acc": (outputs.argmax(1) == part.labels).double().mean().item(),
    }
