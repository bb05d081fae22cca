"""Units: one independent (batch, model, draw of the mechanism) each, as an adversary sees it.

A unit's attack sees the weights at which the update was computed (departure E16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch

from trilemma.attacks import Attack, Knowledge, View, get
from trilemma.attacks.base import links
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.round import Answers, Rounds
from trilemma.game.prepared_models import prepare_models
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.records.records import Records

__all__ = ["Measurement", "Unit", "Units", "draw_unit", "observe_units"]


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
        if self.attack.knows not in ("nothing", "public") or links(self.attack):
            raise InvalidInput(
                f"the attack {self.attack.name!r} singles one record out instead of recovering "
                "those of an update; play it with all of its knowledge: leave --attack out and "
                "say "
                f"--knows {self.attack.knows}."
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
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        named = {"attack": repr(self.attack), "protection": self.protection.describe()}
        return {**plain, **named, "adversary": self.adversary.value}


@dataclass(frozen=True, eq=False)
class Unit:
    """One unit's data: its number, its client, its model's number and its records [S, ...].

    `rows` [S] are its records' places in the pool of all clients' records.
    """

    number: int
    client: int
    model: int
    rows: torch.Tensor
    records: Records


@dataclass(frozen=True, eq=False)
class Units:
    """Units, what an adversary sees of each, and the records [N, S, ...] behind that.

    The records of a curious client are not among them: it takes its own update out of the sum.
    """

    units: Sequence[Unit]
    views: list[View]
    records: Records


def draw_unit(scenario: Scenario, measurement: Measurement, number: int) -> Unit:
    """The unit with this number: clients take turns; its batch depends on seed and number only."""
    clients = len(scenario.records)
    client, turn = number % clients, number // clients
    path = ("batch of", client) if measurement.batches == "fixed" else ("batch", number)
    model = number if measurement.models is None else turn % measurement.models
    rows = _draw_rows(scenario, measurement, client, *path)
    return Unit(number, client, model, rows, scenario.pooled()[rows])


def _draw_rows(
    scenario: Scenario, measurement: Measurement, client: int, *path: str | int
) -> torch.Tensor:
    """Places in the pool [S] of a batch of this client."""
    sizes, draw = list(map(len, scenario.records)), Seeded(measurement.seed).generator(*path)
    rows = draw.choice(sizes[client], scenario.local_training.unit_size, replace=False)
    return torch.from_numpy(rows) + sum(sizes[:client])


def observe_units(
    scenario: Scenario, asked: Measurement, numbers: Sequence[int], *, protected: bool
) -> Units:
    """What the adversary sees of the units with these numbers, under the protection or without.

    An observation holds the unit's own client, as number 0, and those beside it in its round.
    """
    training, pool = scenario.local_training, scenario.pooled_there()
    units = [draw_unit(scenario, asked, number) for number in numbers]
    cohort, clients = asked.cohort(scenario) if protected else 1, len(scenario.records)

    def beside(unit: Unit, step: int) -> torch.Tensor:
        path = "batch beside", unit.number, step
        return _draw_rows(scenario, asked, (unit.client + step) % clients, *path)

    def answers(place: int) -> tuple[Answers, range]:
        number = units[place].number
        draws = Seeded(asked.seed).child("draw", number)
        return Answers.measured([1] * cohort, number, draws), range(cohort)

    rows = torch.stack(
        [
            torch.stack([unit.rows, *(beside(unit, step) for step in range(1, cohort))])
            for unit in units
        ]
    )
    models = sorted({unit.model for unit in units})
    prepared = prepare_models(scenario, models, steps=asked.steps, seed=asked.seed)
    weights = prepared[[models.index(unit.model) for unit in units]]
    adversary = asked.adversary if protected else Adversary.SERVER
    protection = asked.protection if protected else Protection()
    pool_there = pool.inputs, pool.labels
    _, read, _ = Rounds(scenario.task, training, pool_there, protection, often=False).means(
        weights,
        rows.to(scenario.device),
        None,
        answers,
        shares=weights.new_full(rows.shape[:2], 1 / cohort),
        read=dict.fromkeys(range(len(units)), adversary),
        noise=[None] * len(units),
    )
    step = training.lr if training.algorithm == "fedsgd" else 1.0
    knowledge = Knowledge()
    if asked.attack.knows == "public":
        knowledge = Knowledge(scenario.public_records.to(scenario.device))
    views = [
        View(
            scenario.task,
            at - step * seen.update if asked.literal else at,
            seen,
            training,
            scenario.input_spec,
            knowledge,
        )
        for at, seen in zip(weights, read.values(), strict=True)
    ]
    behind = rows[:, : views[0].observation.clients].flatten(1)
    return Units(units, views, scenario.pooled()[behind])
