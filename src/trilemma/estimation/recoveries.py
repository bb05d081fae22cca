"""Algorithms 2 and 3: attack fresh units at prepared models, and count what is recovered.

A unit is one independent (batch, model, draw of the mechanism). Its attack sees the weights at
which the update was computed (departure E16) and is judged by optimal assignment (E17). Units run
in fixed chunks, so a run can be spread over processes, killed and resumed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch
from torch.func import vmap

from trilemma.attacks import Attack, View, get
from trilemma.beliefs.recovery import Criterion
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.estimation.models import prepare_models
from trilemma.estimation.scenario import Records, Scenario
from trilemma.learning import client_update
from trilemma.mechanisms.protection import Protection
from trilemma.mechanisms.protocol import RoundInfo
from trilemma.observations import Adversary, Observation
from trilemma.parallel import map_chunks
from trilemma.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.runs import Run

__all__ = [
    "Measurement",
    "Outcomes",
    "Source",
    "Unit",
    "attack_units",
    "draw_unit",
    "measure",
    "unit_views",
]

_PICTURES: Final = 8

Source = Scenario | Callable[[], Scenario]
"""A scenario, or what makes it: workers make their own rather than receive the data."""


@dataclass(frozen=True)
class Measurement:
    """What is attacked, and with which effort; all of it is part of the claim.

    `units` a client. `models` M: None prepares a fresh model for each unit; a number spreads the
    units over M models, and the result is then conditional on those. `attempts` is the T of
    Algorithms 2 and 3; the attack keeps the best of `restarts` in each. `literal` is the paper's
    own reading, for comparison only: one batch a client, attacked at w' = w - η·update instead of
    w, and paired by position.
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
    literal: bool = False
    chunk: int = 32

    def __post_init__(self) -> None:
        for name in ("units", "restarts", "attempts", "chunk"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.models is not None and self.models < 1:
            raise InvalidInput(f"models must be at least 1, got {self.models}.")
        Seeded(self.seed)
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
        """Clients whose updates one observation holds: one message, or the sum of all."""
        reads = self.protection.transport.server_reads
        if self.adversary is Adversary.SERVER and reads == "messages":
            return 1
        clients = len(scenario.records)
        if self.adversary is Adversary.CLIENT and clients < 2:
            raise InvalidInput(
                "a curious client needs another one to be curious about; use 2 clients or more."
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
    # The paper fixes one mini-batch a client; independent units need a new one each.
    path = ("batch of", client) if measurement.literal else ("batch", number)
    model = number if measurement.models is None else turn % measurement.models
    return Unit(number, client, model, _draw_batch(scenario, measurement, client, *path))


def _draw_batch(
    scenario: Scenario, measurement: Measurement, client: int, *path: str | int
) -> Records:
    records = scenario.records[client]
    draw = Seeded(measurement.seed).generator(*path)
    rows = draw.choice(len(records), scenario.local_training.unit_size, replace=False)
    return records[torch.from_numpy(rows)]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of N units of S records in T attempts.

    client, model [N]; labels [N, S] (-1 where the targets are no classes); recovered and
    similarity [N, T, S]; failed [N, T], where every restart diverged; pictures [P, S, *shape],
    the first units' reconstructions in the order of their records, none unless the scenario
    allows to show records.
    """

    client: NDArray[np.int64]
    model: NDArray[np.int64]
    labels: NDArray[np.int64]
    recovered: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    failed: NDArray[np.bool_]
    pictures: NDArray[np.float32]

    @classmethod
    def join(cls, payloads: Mapping[int, bytes]) -> Self:
        """The chunks' outcomes in the order of their numbers."""
        parts = [_load(payloads[chunk]) for chunk in sorted(payloads)]
        return cls(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    @property
    def counted(self) -> NDArray[np.bool_]:
        """[N, T, S]: recovered, or failed: an attack that diverged proves no privacy."""
        return np.asarray(self.recovered | self.failed[:, :, None])

    def tagged(self) -> NDArray[np.bool_]:
        """[N]: success for one record of each unit, chosen before the attack (the first drawn).

        Records of one batch are not independent, but one a unit gives independent trials.
        """
        return self.counted[:, 0, 0]

    def per_datum(self) -> NDArray[np.float64]:
        """Algorithm 2: f̂(d|w_m) = M_d / (S·T) for the unit's records and d₀, [N, S + 1]."""
        found = self.counted
        trials = found.shape[1] * found.shape[2]
        data = found.sum(axis=1) / trials
        return np.column_stack([data, 1 - data.sum(axis=1)])

    def per_class(self, classes: int) -> NDArray[np.float64]:
        """Algorithm 3: f̂(c|w_m) = M_c / (S·T) and the null outcome, [N, classes + 1].

        The paper divides by |C_k|·T and has no null outcome, so that a batch of four records of
        one class gets f̂ = 4 / |C_k| and beliefs do not sum to one (departure E15).
        """
        found = self.counted
        trials = found.shape[1] * found.shape[2]
        hits = found.sum(axis=1)
        table = np.stack([(hits * (self.labels == c)).sum(axis=1) for c in range(classes)], axis=1)
        return np.column_stack([table / trials, 1 - table.sum(axis=1) / trials])


def measure(
    source: Source,
    measurement: Measurement,
    criterion: Criterion,
    *,
    run: Run | None = None,
    workers: int = 1,
    show_progress: bool = False,
) -> tuple[Outcomes | None, Outcomes]:
    """Outcomes under the protection (None without one), and of the unprotected control.

    The control attacks the same batches at the same models. Chunks that `run` already holds are
    not attacked again, and each new one is committed as soon as it is there.
    """
    scenario = source if isinstance(source, Scenario) else source()
    total = measurement.units * len(scenario.records)
    stages = {"control": False}
    if measurement.protected:
        stages["protected"] = True
    found: dict[str, Outcomes] = {}
    for name, protected in stages.items():
        stage = f"literal {name}" if measurement.literal else name
        job = _Job(source, measurement, criterion, protected)
        payloads = run.committed(stage) if run else {}
        chunks = range(math.ceil(total / measurement.chunk))
        done = Outcomes.join(payloads).tagged() if payloads else np.zeros(0, dtype=bool)
        with Progress(
            f"attack on {stage} updates",
            total=total,
            done=len(done),
            successes=int(done.sum()),
            quiet=not show_progress,
        ) as progress:
            missing = [chunk for chunk in chunks if chunk not in payloads]
            for chunk, payload in map_chunks(job, missing, workers=workers):
                if run:
                    run.commit(stage, chunk, payload)
                payloads[chunk] = payload
                hits = Outcomes.join({chunk: payload}).tagged()
                progress.advance(len(hits), successes=int(hits.sum()))
        found[name] = Outcomes.join(payloads)
        if run and missing:
            hits = found[name].tagged()
            run.log.write(
                f"attack on {stage} updates finished: {len(hits)} units, {hits.sum()} recovered"
            )
    return found.get("protected"), found["control"]


def attack_units(
    scenario: Scenario, measurement: Measurement, criterion: Criterion, numbers: Sequence[int]
) -> Outcomes:
    """Outcomes of the units with these numbers; they are attacked together, as one chunk."""
    job = _Job(scenario, measurement, criterion, measurement.protected)
    return Outcomes(**job.attack(scenario, numbers[0], numbers))


def unit_views(
    scenario: Scenario, measurement: Measurement, numbers: Sequence[int]
) -> tuple[list[View], torch.Tensor, torch.Tensor]:
    """What the adversary sees of these units, and the truth: inputs [N, S, ...], labels [N, S]."""
    job = _Job(scenario, measurement, Criterion(), measurement.protected)
    units = [draw_unit(scenario, measurement, number) for number in numbers]
    batches = [job.batches(scenario, unit) for unit in units]
    views = job.views(scenario, units, batches)
    sought = job.sought(batches, views)
    inputs = torch.stack([torch.cat([r.inputs for r in each]) for each in sought])
    return views, inputs, torch.stack([torch.cat([r.labels for r in each]) for each in sought])


@dataclass(frozen=True)
class _Job:
    """Makes a worker's function: chunk number -> payload."""

    source: Source
    measurement: Measurement
    criterion: Criterion
    protected: bool

    def __call__(self) -> Callable[[int], bytes]:
        scenario = self.source if isinstance(self.source, Scenario) else self.source()

        def work(chunk: int) -> bytes:
            total = self.measurement.units * len(scenario.records)
            size = self.measurement.chunk
            numbers = range(chunk * size, min(total, (chunk + 1) * size))
            return _save(self.attack(scenario, chunk, numbers))

        return work

    def attack(
        self, scenario: Scenario, chunk: int, numbers: Sequence[int]
    ) -> dict[str, NDArray[Any]]:
        """The arrays of `Outcomes` for the units of one chunk."""
        asked = self.measurement
        units = [draw_unit(scenario, asked, number) for number in numbers]
        batches = [self.batches(scenario, unit) for unit in units]
        views = self.views(scenario, units, batches)
        sought = self.sought(batches, views)
        originals = torch.stack([torch.cat([r.inputs for r in each]) for each in sought])
        outcomes = []
        for attempt in range(asked.attempts):
            found = asked.attack(
                views,
                restarts=asked.restarts,
                seed=Seeded(asked.seed).integer("attack", self.protected, chunk, attempt),
            )
            inputs = found.inputs.cpu()
            match = self.criterion.match(
                inputs, originals, scenario.input_spec, by_position=asked.literal
            )
            failed = found.failed.cpu() | ~torch.isfinite(inputs).flatten(1).all(1)
            outcomes.append((match, failed))
            if attempt == 0:
                shown = min(_PICTURES, len(units)) if scenario.show_records and chunk == 0 else 0
                partners = match.partner[:shown, :, *[None] * len(scenario.input_spec.shape)]
                pictures = torch.take_along_dim(inputs[:shown], partners, 1)
        labels = torch.stack([torch.cat([r.labels for r in each]) for each in sought])
        if scenario.classes is None:
            labels = torch.full(originals.shape[:2], -1)
        return {
            "client": np.array([unit.client for unit in units]),
            "model": np.array([unit.model for unit in units]),
            "labels": labels.numpy(),
            "recovered": np.stack([match.recovered.numpy() for match, _ in outcomes], axis=1),
            "similarity": np.stack([match.similarity.numpy() for match, _ in outcomes], axis=1),
            "failed": np.stack([failed.numpy() for _, failed in outcomes], axis=1),
            "pictures": pictures.numpy(),
        }

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
        asked, training = self.measurement, scenario.local_training
        numbers = sorted({unit.model for unit in units})
        prepared = prepare_models(scenario, numbers, steps=asked.steps, seed=asked.seed)
        weights_of = prepared[[numbers.index(unit.model) for unit in units]]
        inputs = torch.stack([torch.stack([r.inputs for r in batch]) for batch in batches])
        labels = torch.stack([torch.stack([r.labels for r in batch]) for batch in batches])

        def send(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return client_update(scenario.task, weights, x, y, training)

        clients = vmap(send, in_dims=(None, 0, 0))
        updates = vmap(clients)(weights_of, inputs.to(scenario.device), labels.to(scenario.device))
        step = training.lr if training.algorithm == "fedsgd" else 1.0
        views = []
        for unit, weights, sent in zip(units, weights_of, updates, strict=True):
            seen = self._observation(sent, unit) if self.protected else Observation(sent[0])
            at = weights - step * sent[0] if asked.literal else weights
            views.append(View(scenario.task, at, seen, training, scenario.input_spec))
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
        seen = asked.protection.observe_updates(
            updates, None, asked.adversary, entropy=draws, round=round, curious=clients - 1
        )
        return seen[0]


def _save(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _load(payload: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return dict(arrays)
