"""FedSGD and FedAvg in one process, under any protection: what it does to a model.

`train` drives the sessions that a network adapter drives, or their arithmetic alone. It is a
measurement: batches, cohorts and noise are repeatable, while keys and masks of a transport come
from the system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.federation.cohorts import Cohorts, Federated
from trilemma.federation.scoring import Metric, Score
from trilemma.learning.precision import drawn_on
from trilemma.protections.protection import Protection
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.rounds import run_round
from trilemma.protections.twin import has_twin, twin_mean

__all__ = ["History", "Round", "server_step", "start_weights", "train"]

_NO_PROTECTION: Final = Protection()


@dataclass(frozen=True)
class Round:
    """One round: its clients, and the model after it on the test records (None: not evaluated)."""

    number: int
    clients: tuple[int, ...]
    loss: float | None
    metric: float | None


@dataclass(frozen=True, eq=False)
class History:
    """A finished training: its rounds, the final weights [m], the metric on each client's records.

    `one_by_one` says why the clients did not train in one vmapped pass, if they did not. `scores`
    [n] is each test record's part in the final metric, `client_scores` that of the clients' own
    records, where the metric is a mean over records (`Scored`).
    """

    rounds: tuple[Round, ...]
    weights: torch.Tensor
    client_metrics: tuple[float, ...]
    one_by_one: str | None
    scores: torch.Tensor | None = None
    client_scores: tuple[torch.Tensor | None, ...] = ()

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
    server_decay: bool = False,
    evaluate_every: int = 1,
    metric: Metric | None = None,
    real_rounds: int | None = None,
    secret: Any = None,
) -> History:
    """Train for `rounds` rounds: w ← w - server_lr · Σ_k n_k u_k / Σ_k n_k, u_k as protected.

    `weights` [m] is the start (None: the model's own). n_k is client k's number of records, or 1
    unless `weighted`. `server_lr` is the local rate for FedSGD and 1 for FedAvg by default; with
    `server_decay` it falls linearly to zero.
    `metric(outputs, labels)` is a number of which more is better (None: accuracy, or minus the
    loss without classes). `real_rounds` is the number of rounds, from the first, in which messages
    are sent; of the others the same mean is computed without them (`twin_mean`; None: all are
    real). `secret` is the clients' Paillier key (None: a new one).
    """
    everyone = len(federated.records)
    per_round = everyone if clients_per_round is None else clients_per_round
    _check(rounds, per_round, everyone, threshold, evaluate_every, server_lr)
    setting = federated.local_training
    step = server_lr or (setting.lr if setting.algorithm == "fedsgd" else 1.0)
    current = start_weights(federated, weights)
    cohorts, entropy = Cohorts(federated, per_round, seed), Seeded(seed)
    score = Score(federated, metric)
    real_rounds = rounds if real_rounds is None or not has_twin(protection) else real_rounds
    if secret is None and real_rounds:
        secret = protection.transport.new_secret(System())
    history: list[Round] = []
    for number in range(rounds):
        clients = cohorts.sample(number)
        updates = _at_hand(cohorts.updates(current, number, clients))
        counts = [cohorts.sizes[client] if weighted else 1 for client in clients]
        info = RoundInfo.new(clients, entropy, run="train", number=number, threshold=threshold)
        if number < real_rounds:
            sent = run_round(protection, updates, counts, info, entropy=entropy, secret=secret)
            mean = sent.mean
        else:
            mean = twin_mean(protection, updates, counts, info, entropy)
        mean = mean.to(current.device)
        current = current - server_step(step, number, rounds, decay=server_decay) * mean
        if not torch.isfinite(current).all():
            raise InvalidInput(
                f"the model diverged in round {number}: its weights are no longer finite; lower "
                "the learning rate, or protect less."
            )
        found = None
        if number + 1 == rounds or (number + 1) % evaluate_every == 0:
            found = score.of_test(current, number)
        loss, value = (None, None) if found is None else (found.loss, found.metric)
        history.append(Round(number, clients, loss, value))
    own = score.of_clients(current, rounds - 1)
    return History(
        tuple(history),
        current,
        tuple(each.metric for each in own),
        cohorts.one_by_one,
        None if found is None else found.scores,
        tuple(each.scores for each in own),
    )


def _at_hand(updates: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The updates where their noise is drawn, brought there at once.

    A GPU would be handed a dozen operations a client, each too small for it.
    """
    first = updates[0]
    where = drawn_on(first.device, first.numel())
    return updates if where == first.device else torch.stack(tuple(updates)).to(where).unbind()


def server_step(first: float, number: int, rounds: int, *, decay: bool) -> float:
    """The server's step in a round: the first one, or falling linearly from it to zero.

    >>> [server_step(8.0, number, 4, decay=True) for number in range(4)]
    [8.0, 6.0, 4.0, 2.0]
    """
    return first * (1 - number / rounds) if decay else first


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


def start_weights(federated: Federated, weights: torch.Tensor | None) -> torch.Tensor:
    """The weights [m] on the federation's device (None: the model's own)."""
    layout = federated.task.layout
    if weights is None:
        weights = layout.flatten(dict(federated.task.model.named_parameters()))
    if tuple(weights.shape) != (layout.size,):
        raise InvalidInput(
            f"the start has shape {tuple(weights.shape)}, but the model has {layout.size} "
            "parameters; all must train the same model."
        )
    return weights.detach().to(federated.device)
