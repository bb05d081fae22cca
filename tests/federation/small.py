"""A federation of three unlike clients, small enough for any test."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.federation.cohort_updates import Sending
from trilemma.federation.cohorts import Cohorts, Federated, pooled
from trilemma.federation.recipe import Recipe
from trilemma.federation.round_timing import RoundCosts, round_costs
from trilemma.federation.training import History, train
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.records.records import Records

SIZES = (8, 12, 20)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def federation(
    local_training: LocalTraining | None = None,
    model: nn.Module | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> Scenario:
    draw = torch.Generator().manual_seed(0)

    def records(count: int) -> Records:
        labels = torch.randint(0, 3, (count,), generator=draw)
        inputs = torch.rand(count, 5, generator=draw)
        inputs[torch.arange(count), labels] += 1.0  # so that there is something to learn
        return Records(inputs, labels)

    return Scenario(
        model or network(),
        cross_entropy,
        [records(size) for size in sizes],
        records(60),
        local_training or LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8),
    )


def trained(
    federated: Federated,
    protection: Protection | None = None,
    *,
    seed: int = 0,
    local_training: LocalTraining | None = None,
    **settings: Any,
) -> History:
    """One training from a seed; settings of the recipe, and of `train`."""
    own = {
        field.name: settings.pop(field.name) for field in fields(Recipe) if field.name in settings
    }
    if local_training is None:
        assert isinstance(federated, Scenario)
        local_training = federated.local_training
    recipe = Recipe(local_training, **own)
    (history,) = train(federated, protection or Protection(), recipe, seeds=(seed,), **settings)
    return history


def costs_of(
    federated: Scenario, protection: Protection, *, rounds: int, **recipe: Any
) -> RoundCosts:
    """Rounds of the federation's own training, timed; settings of the recipe."""
    own = Recipe(federated.local_training, **recipe)
    return round_costs(federated, protection, own, rounds=rounds)


def cohorts_of(federated: Scenario, per_round: int, seed: int) -> tuple[Cohorts, Sending]:
    """Cohorts of the federation's own local training, and what computes their updates."""
    training = federated.local_training
    sending = Sending(federated.task, training, *pooled(federated))
    return Cohorts(federated, Recipe(training), per_round, seed, "train"), sending
