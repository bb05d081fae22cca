"""Units: one independent (batch, model, draw of the mechanism) each, as an adversary sees it.

A unit's attack sees the weights at which the update was computed (departure E16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from trilemma.attacks import Attack, Knowledge, View, get
from trilemma.attacks.base import links
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.game.prepared_models import prepare_models
from trilemma.game.scenario import Scenario
from trilemma.learning import client_update
from trilemma.observations import Adversary, Observation
from trilemma.protection.adversary_view import observe_updates
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.records.records import Records

__all__ = ["Measurement", "Sight", "Unit", "draw_unit", "unit_views"]


@dataclass(frozen=True)
class Measurement:
    """What is attacked, and with which effort; all of it is part of the claim.

    `units` a client. `models` M: None prepares a fresh model for each unit; a number spreads the
    units over M models, and the result is then conditional on those. `attempts` is the T of
    Algorithms 3 and 4; the attack keeps the best of `restarts` in each. `batches` fixed: one batch
    a client, as in those algorithms; fresh: each unit has its own. `literal` is a reading of their
    letter, for comparison only: attacked at w' = w - η·update instead of w (departure E16), and
    paired by position (E17).
    """

    attack: Attack = field(default_factory=lambda: get("dlg"))
    protection: Protection = field(default_factory=Protection)
    adversary: Adversary = Adversary.SERVER
    units: int = 10
    restarts: int = 3
    attempts: int = 1
    models: int | None = None
    steps: int = 20
    seed: int = 0
    batches: Literal["fresh", "fixed"] = "fresh"
    literal: bool = False
    chunk: int = 32

    def __post_init__(self) -> None:
        for name in ("units", "restarts", "attempts", "chunk"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.models is not None and self.models < 1:
            raise InvalidInput(f"models must be at least 1, got {self.models}.")
        Seeded(self.seed)
        if self.attack.rung not in ("nothing", "public") or links(self.attack):
            raise InvalidInput(
                f"the attack {self.attack.name!r} singles one record out instead of recovering "
                f"those of an update; play it with all of its rung: leave --attack out and say "
                f"--knows {self.attack.rung}."
            )
        reads = self.protection.transport.server_reads
        if reads == "nothing" and self.adversary is Adversary.SERVER:
            raise InvalidInput(
                f"the server reads nothing under {self.protection.describe()}, so there is "
                f"nothing to attack: what protects there is the key; attack as a curious client."
            )

    @property
    def protected(self) -> bool:
        """Whether there is more to measure than the unprotected control."""
        return self.protection != Protection() or self.adversary is not Adversary.SERVER

    def cohort(self, scenario: Scenario) -> int:
        """Clients whose updates one observation holds: one message, or the sum of a cohort."""
        reads = self.protection.transport.server_reads
        if self.adversary is Adversary.SERVER and reads == "messages":
            return 1
        clients = scenario.per_round
        if self.adversary is Adversary.CLIENT and clients < 2:
            raise InvalidInput(
                f"a curious client needs another one to be curious about, got {clients} client; "
                f"use 2 or more."
            )
        return clients

    def settings(self) -> dict[str, Any]:
        """All that decides the numbers, for a run's journal."""
        return {
            "attack": repr(self.attack),
            "protection": self.protection.describe(),
            "adversary": self.adversary.value,
            **{
                name: getattr(self, name)
                for name in (
                    "units",
                    "restarts",
                    "attempts",
                    "models",
                    "steps",
                    "seed",
                    "batches",
                    "literal",
                    "chunk",
                )
            },
        }


@dataclass(frozen=True, eq=False)
class Unit:
    """One unit's data: its number, its client, its model's number and its records [S, ...]."""

    number: int
    client: int
    model: int
    records: Records


def draw_unit(scenario: Scenario, measurement: Measurement, number: int) -> Unit:
    """The unit with this number: clients take turns; its batch depends on seed and number only."""
    clients = len(scenario.records)
    client, turn = number % clients, number // clients
    path = ("batch of", client) if measurement.batches == "fixed" else ("batch", number)
    model = number if measurement.models is None else turn % measurement.models
    return Unit(number, client, model, _draw_batch(scenario, measurement, client, *path))


def _draw_batch(
    scenario: Scenario, measurement: Measurement, client: int, *path: str | int
) -> Records:
    records = scenario.records[client]
    draw = Seeded(measurement.seed).generator(*path)
    rows = draw.choice(len(records), scenario.local_training.unit_size, replace=False)
    return records[torch.from_numpy(rows)]


def unit_views(
    scenario: Scenario, measurement: Measurement, numbers: Sequence[int]
) -> tuple[list[View], torch.Tensor, torch.Tensor]:
    """What the adversary sees of these units, and the truth: inputs [N, S, ...], labels [N, S]."""
    seen = Sight(measurement, measurement.protected)
    units = [draw_unit(scenario, measurement, number) for number in numbers]
    batches = [seen.batches(scenario, unit) for unit in units]
    views = seen.views(scenario, units, batches)
    sought = seen.sought(batches, views)
    inputs = torch.stack([torch.cat([r.inputs for r in each]) for each in sought])
    return views, inputs, torch.stack([torch.cat([r.labels for r in each]) for each in sought])


@dataclass(frozen=True)
class Sight:
    """How units look to the adversary, under the measurement's protection or without any."""

    measurement: Measurement
    protected: bool

    def batches(self, scenario: Scenario, unit: Unit) -> list[Records]:
        """The records of each client that an observation holds, the unit's own client first."""
        clients = len(scenario.records)
        others = self.measurement.cohort(scenario) - 1 if self.protected else 0
        return [unit.records] + [
            _draw_batch(
                scenario,
                self.measurement,
                (unit.client + step) % clients,
                *("batch beside", unit.number, step),
            )
            for step in range(1, others + 1)
        ]

    def views(
        self, scenario: Scenario, units: Sequence[Unit], batches: Sequence[Sequence[Records]]
    ) -> list[View]:
        """What the adversary sees of each unit."""
        asked, training, spec = self.measurement, scenario.local_training, scenario.input_spec
        numbers = sorted({unit.model for unit in units})
        prepared = prepare_models(scenario, numbers, steps=asked.steps, seed=asked.seed)
        weights_of = prepared[[numbers.index(unit.model) for unit in units]]
        inputs = torch.stack([torch.stack([r.inputs for r in batch]) for batch in batches])
        labels = torch.stack([torch.stack([r.labels for r in batch]) for batch in batches])

        def send(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return client_update(scenario.task, weights, x, y, training)

        way = scenario.task.way
        clients = way.vmap(send, in_dims=(None, 0, 0))
        updates = way.vmap(clients)(
            weights_of, inputs.to(scenario.device), labels.to(scenario.device)
        )
        step = training.lr if training.algorithm == "fedsgd" else 1.0
        knowledge = Knowledge()
        if asked.attack.rung == "public":
            knowledge = Knowledge(scenario.public_records.to(scenario.device))
        views = []
        for unit, weights, sent in zip(units, weights_of, updates, strict=True):
            seen = self._observation(sent, unit) if self.protected else Observation(sent[0])
            at = weights - step * sent[0] if asked.literal else weights
            views.append(View(scenario.task, at, seen, training, spec, knowledge))
        return views

    def sought(
        self, batches: Sequence[Sequence[Records]], views: Sequence[View]
    ) -> list[Sequence[Records]]:
        """The batches without a curious client's own, which it takes out of the sum."""
        return [
            batch[: view.observation.clients] for batch, view in zip(batches, views, strict=True)
        ]

    def _observation(self, updates: torch.Tensor, unit: Unit) -> Observation:
        """One draw of the protection for a round of clients [K, m], as the adversary reads it.

        The unit's own client is number 0; a curious one is the last.
        """
        asked, clients = self.measurement, updates.shape[0]
        draws = Seeded(asked.seed).child("draw", unit.number)
        round = RoundInfo(
            run="measurement",
            number=unit.number,
            participants=tuple(range(clients)),
            threshold=clients,
            mask_seed=draws.integer("mask"),
        )
        seen = observe_updates(
            asked.protection,
            updates,
            None,
            asked.adversary,
            entropy=draws,
            round=round,
            curious=clients - 1,
        )
        return seen[0]
