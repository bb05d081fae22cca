"""FedSGD and FedAvg in one process, under any protection: what it does to a model, and costs.

`train` drives the sessions that a network adapter drives. It is a measurement: batches, cohorts
and noise are repeatable, while keys and masks of a transport come from the system.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.federation.cohorts import Cohorts, Federated, Labelled
from trilemma.protections.protection import Protection
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.rounds import run_round
from trilemma.protections.transcripts import RoundResult, Seconds
from trilemma.protections.transports.wire import SERVER

if TYPE_CHECKING:
    from trilemma.learning import Task

__all__ = ["Exchange", "History", "Metric", "Round", "train"]

Metric = Callable[[torch.Tensor, torch.Tensor], float]
_NO_PROTECTION: Final = Protection()
_EVALUATED: Final = 4096  # records at a time


@dataclass(frozen=True)
class Exchange:
    """What a round's protocol took: bits of each client, seconds of its steps."""

    bits_up: tuple[int, ...]
    bits_down: tuple[int, ...]
    seconds: Seconds


@dataclass(frozen=True)
class Round:
    """One round: its clients, and the model after it on the test records (None: not evaluated).

    `train_seconds` is the wall time of the cohort's local training, divided by its clients.
    `exchange` is None where the transport's fixed-point twin stood in for it.
    """

    number: int
    clients: tuple[int, ...]
    train_seconds: float
    exchange: Exchange | None
    loss: float | None
    metric: float | None


@dataclass(frozen=True, eq=False)
class History:
    """A finished training: its rounds, the final weights [m], the metric on each client's records.

    `one_by_one` says why the clients did not train in one vmapped pass, if they did not.
    """

    rounds: tuple[Round, ...]
    weights: torch.Tensor
    client_metrics: tuple[float, ...]
    one_by_one: str | None

    @property
    def loss(self) -> float:
        """Mean loss of the final model on the test records."""
        return self._final("loss")

    @property
    def metric(self) -> float:
        """Metric of the final model on the test records."""
        return self._final("metric")

    def _final(self, name: str) -> float:
        return float(getattr(self.rounds[-1], name))


def train(
    federated: Federated,
    protection: Protection = _NO_PROTECTION,
    *,
    rounds: int,
    seed: int = 0,
    weights: torch.Tensor | None = None,
    clients_per_round: int | None = None,
    threshold: int | None = None,
    weighted: bool = True,
    server_lr: float | None = None,
    evaluate_every: int = 1,
    metric: Metric | None = None,
    real_rounds: int | None = None,
    secret: Any = None,
) -> History:
    """Train for `rounds` rounds: w ← w - server_lr · Σ_k n_k u_k / Σ_k n_k, u_k as protected.

    `weights` [m] is the start (None: the model's own). n_k is client k's number of records, or 1
    unless `weighted`. `server_lr` is the local rate for FedSGD and 1 for FedAvg by default.
    `metric(outputs, labels)` is a number of which more is better (None: accuracy, or minus the
    loss without classes). `real_rounds` is the number of rounds, from the first, that run a
    cryptographic transport; the others run its fixed-point twin, which computes the same numbers.
    `secret` is the clients' Paillier key (None: a new one).
    """
    everyone = len(federated.records)
    per_round = everyone if clients_per_round is None else clients_per_round
    _check(rounds, per_round, everyone, threshold, evaluate_every, server_lr)
    setting = federated.local_training
    step = server_lr or (setting.lr if setting.algorithm == "fedsgd" else 1.0)
    current = _start(federated, weights)
    cohorts, entropy = Cohorts(federated, per_round, seed), Seeded(seed)
    score = _Score(federated, metric)
    twin = replace(protection, transport=protection.transport.twin())
    real_rounds = rounds if real_rounds is None or twin == protection else real_rounds
    secret = protection.transport.new_secret(System()) if secret is None else secret
    history: list[Round] = []
    for number in range(rounds):
        clients = cohorts.sample(number)
        start = _now(current)
        updates = cohorts.updates(current, number, clients)
        train_seconds = (_now(current) - start) / len(clients)
        counts = [cohorts.sizes[client] if weighted else 1 for client in clients]
        info = RoundInfo.new(clients, entropy, run="train", number=number, threshold=threshold)
        real = number < real_rounds
        runner = protection if real else twin
        result = run_round(runner, updates, counts, info, entropy=entropy, secret=secret)
        current = current - step * result.mean
        if not torch.isfinite(current).all():
            raise InvalidInput(
                f"the model diverged in round {number}: its weights are no longer finite; lower "
                "the learning rate, or protect less."
            )
        due = number + 1 == rounds or (number + 1) % evaluate_every == 0
        loss, value = score(current, number) if due else (None, None)
        exchange = _exchange(result, clients) if real else None
        history.append(Round(number, clients, train_seconds, exchange, loss, value))
    return History(
        tuple(history), current, score.of_clients(current, rounds - 1), cohorts.one_by_one
    )


class _Score:
    """Loss and metric of a model on records."""

    def __init__(self, federated: Federated, metric: Metric | None) -> None:
        self.federated, self.task = federated, federated.task
        self.metric = metric or _default_metric(federated.task)

    def __call__(self, weights: torch.Tensor, number: int) -> tuple[float, float]:
        return self._on(self.federated.test_records, weights, number)

    def of_clients(self, weights: torch.Tensor, number: int) -> tuple[float, ...]:
        """The metric on each client's own records."""
        return tuple(self._on(each, weights, number)[1] for each in self.federated.records)

    def _on(self, records: Labelled, weights: torch.Tensor, number: int) -> tuple[float, float]:
        labels = records.labels.to(weights.device)
        with torch.no_grad():
            parts = [
                self.task.outputs(weights, part.to(weights.device))
                for part in torch.split(records.inputs, _EVALUATED)
            ]
            outputs = torch.cat(parts)
            loss = float(self.task.loss_of(outputs, labels))
            value = self.metric(outputs, labels)
        try:
            number_of = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise InvalidInput(
                f"the metric must return a number, got {type(value).__name__}; return one for the "
                "whole of the records."
            ) from None
        if not math.isfinite(number_of):
            raise InvalidInput(
                f"the metric returned {number_of} after round {number}; let it return a finite "
                "number for any outputs and labels."
            )
        return loss, number_of


def _default_metric(task: Task) -> Metric:
    if task.classes is not None:
        return lambda outputs, labels: float((outputs.argmax(1) == labels).float().mean())
    return lambda outputs, labels: -float(task.loss_of(outputs, labels))


def _check(
    rounds: int,
    per_round: int,
    everyone: int,
    threshold: int | None,
    evaluate_every: int,
    server_lr: float | None,
) -> None:
    for name, value in (("rounds", rounds), ("evaluate_every", evaluate_every)):
        if value < 1:
            raise InvalidInput(f"{name} must be at least 1, got {value}.")
    if not 1 <= per_round <= everyone:
        raise InvalidInput(
            f"clients_per_round must lie in 1 .. {everyone}, the number of clients, "
            f"got {per_round}."
        )
    if threshold is not None and threshold > per_round:
        raise InvalidInput(
            f"a round has {per_round} clients, fewer than the threshold of {threshold}; lower it, "
            "or let more clients take part."
        )
    if server_lr is not None and not (math.isfinite(server_lr) and server_lr > 0):
        raise InvalidInput(f"server_lr must be positive, got {server_lr}.")


def _start(federated: Federated, weights: torch.Tensor | None) -> torch.Tensor:
    layout = federated.task.layout
    if weights is None:
        weights = layout.flatten(dict(federated.task.model.named_parameters()))
    if tuple(weights.shape) != (layout.size,):
        raise InvalidInput(
            f"the start has shape {tuple(weights.shape)}, but the model has {layout.size} "
            "parameters; all must train the same model."
        )
    return weights.detach().to(federated.device)


def _exchange(result: RoundResult, clients: tuple[int, ...]) -> Exchange:
    up: Counter[int] = Counter()
    down: Counter[int] = Counter()
    for message in result.transcript.messages:
        if message.sender == SERVER:
            down[message.receiver] += 8 * len(message.body)
        else:
            up[message.sender] += 8 * len(message.body)
    return Exchange(
        tuple(up[client] for client in clients),
        tuple(down[client] for client in clients),
        result.seconds,
    )


def _now(weights: torch.Tensor) -> float:
    """Wall time, once the device has done all that it was given."""
    if weights.device.type == "cuda":
        torch.cuda.synchronize(weights.device)
    return time.perf_counter()
