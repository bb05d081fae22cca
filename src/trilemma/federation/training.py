"""FedSGD and FedAvg in one process, under any protection: what it does to a model.

`train` drives the sessions that a network adapter drives, or their arithmetic alone. It is a
measurement: batches, cohorts and noise are repeatable, while keys and masks of a transport come
from the system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.federation.cohorts import Cohorts, Federated, pooled
from trilemma.federation.round import Rounds
from trilemma.federation.scoring import Score
from trilemma.federation.server import Server
from trilemma.protection.round_arithmetic import is_exact
from trilemma.quantities import counted

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.protection.protection import Protection
    from trilemma.records.records import Records

__all__ = ["History", "Round", "start_weights", "train"]


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
    protection: Protection,
    recipe: Recipe,
    *,
    seeds: Sequence[int] = (0,),
    weights: torch.Tensor | None = None,
    public: Records | None = None,
    clients_per_round: int | None = None,
    evaluate_every: int | None = None,
    metric: Callable[[torch.Tensor, torch.Tensor], float] | None = None,
    real_rounds: int | None = None,
    secret: Any = None,
) -> tuple[History, ...]:
    """Train by a recipe once from each seed; each round, the mean is Σ_k n_k u_k / Σ_k n_k.

    u_k is a client's update as protected, n_k its number of records, or 1 with equal weights.
    `weights` [m] or [seeds, m] is what a warm start begins with (None: the model's own), `public`
    are records of nobody's, if the recipe asks for them. The model is evaluated after every so
    many rounds, and after the last (`evaluate_every` None: then alone).
    `metric(outputs, labels)` is a number of which more is better (None: accuracy, or minus the
    loss without classes). `real_rounds` is the number of rounds, from the first, in which messages
    are sent; of the others the same mean is computed without them (None: all are real). `secret`
    is the clients' Paillier key (None: a new one).
    """
    rounds = _rounds_of(recipe)
    everyone = len(federated.records)
    per_round = everyone if clients_per_round is None else clients_per_round
    _check(per_round, everyone, recipe.threshold, evaluate_every)
    starts = start_weights(federated, weights, len(seeds))
    score = Score(federated, metric)
    real_rounds = rounds if real_rounds is None or not is_exact(protection) else real_rounds
    if secret is None and real_rounds:
        secret = protection.transport.new_secret(System())
    run = Rounds(federated.task, recipe.local_training, pooled(federated), protection)
    histories = []
    for seed, start in zip(seeds, starts, strict=True):
        server = Server(federated.task, recipe, rounds, public)
        cohorts = Cohorts(federated, recipe, per_round, seed, "train")
        current = server.start(start[None])
        history: list[Round] = []
        for number in range(rounds):
            answers = cohorts.sample(number)
            clients = answers.info.participants
            mean = run.mean(
                current[0],
                *cohorts.rows(number, clients),
                answers,
                messages=number < real_rounds,
                secret=secret,
            )
            current = server.step(current, mean[None], number)
            _require_finite(current, number)
            scored = None
            if number + 1 == rounds or (evaluate_every and (number + 1) % evaluate_every == 0):
                scored = score.of_test(server.trained(current)[0], number)
            loss, value = (None, None) if scored is None else (scored.loss, scored.metric)
            history.append(Round(number, clients, loss, value))
        trained = server.trained(current)[0]
        own = score.of_clients(trained, rounds - 1)
        histories.append(
            History(
                tuple(history),
                trained,
                tuple(item.metric for item in own),
                run.sending.one_by_one,
                None if scored is None else scored.scores,
                tuple(item.scores for item in own),
            )
        )
    return tuple(histories)


def _require_finite(weights: torch.Tensor, number: int) -> None:
    if not torch.isfinite(weights).all():
        raise InvalidInput(
            f"the model diverged in round {number}: its weights are no longer finite; "
            "lower the learning rate, or protect less."
        )


def _rounds_of(recipe: Recipe) -> int:
    if recipe.rounds is None:
        raise InvalidInput("the recipe says no number of rounds; give it rounds=150, say.")
    return recipe.rounds


def _check(
    per_round: int, everyone: int, threshold: int | None, evaluate_every: int | None
) -> None:
    if evaluate_every is not None:
        counted("evaluate_every", evaluate_every)
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


def start_weights(
    federated: Federated, weights: torch.Tensor | None, trainings: int = 1
) -> torch.Tensor:
    """The weights [trainings, m] on the federation's device (None: the model's own)."""
    layout = federated.task.layout
    if weights is None:
        weights = layout.flatten(dict(federated.task.model.named_parameters()))
    if weights.shape[-1:] != (layout.size,) or weights.shape[:-1] not in ((), (trainings,)):
        raise InvalidInput(
            f"the start has shape {tuple(weights.shape)}, but {trainings} trainings of a model "
            f"of {layout.size} parameters take ({layout.size},) or ({trainings}, {layout.size}); "
            "all must train the same model."
        )
    return weights.detach().to(federated.device).expand(trainings, -1)
