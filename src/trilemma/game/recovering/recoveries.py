"""Algorithms 3 and 4: attack units at prepared models, and count what is recovered.

An attack on a unit is judged by optimal assignment (departure E17). Units run in fixed chunks, so
a run can be spread over processes, killed and resumed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch

from trilemma.beliefs.recovery import Criterion
from trilemma.entropy import Seeded
from trilemma.execution.pool import executor
from trilemma.execution.progress import Progress
from trilemma.execution.scheduler import Procedure, Scheduler
from trilemma.game.gpu_sharing import own_scenario, patient
from trilemma.game.playing.view_kinds import find
from trilemma.game.recovering.units import Measurement, observe_units
from trilemma.game.scenario import Scenario, Source
from trilemma.game.scenario_identity import require_scenario
from trilemma.learning.precision import whole_floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.execution.journal import Run

__all__ = ["Outcomes", "attack_units", "measure"]

_PICTURES: Final = 8


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

    def target(self) -> NDArray[np.bool_]:
        """[N]: success for one record of each unit, chosen before the attack (the first drawn).

        Records of one batch are not independent, but one a unit gives independent trials.
        """
        return self.counted[:, 0, 0]

    def per_datum(self) -> NDArray[np.float64]:
        """Algorithm 3: f̂(d|w_m) = M_d / (S·T) for the unit's records and d₀, [N, S + 1]."""
        found = self.counted
        trials = found.shape[1] * found.shape[2]
        data = found.sum(axis=1) / trials
        return np.column_stack([data, 1 - data.sum(axis=1)])

    def per_class(self, classes: int) -> NDArray[np.float64]:
        """Algorithm 4: f̂(c|w_m) = M_c / (S·T) and the null outcome, [N, classes + 1].

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
    ray: str | None = None,
    show_progress: bool = False,
) -> tuple[Outcomes | None, Outcomes]:
    """Outcomes under the protection (None without one), and of the unprotected control.

    The control attacks the same batches at the same models. Chunks that `run` already holds are
    not attacked again, and each new one is committed as soon as it is there.
    """
    scenario = source if isinstance(source, Scenario) else source()
    if run is not None:
        require_scenario(run, scenario)
    stages = {"control": False}
    if measurement.protected:
        stages["protected"] = True
    found: dict[str, Outcomes] = {}
    job = _Job(source, measurement, criterion)
    with executor(job, workers=workers, ray=ray, device=scenario.device) as pool:
        for name, protected in stages.items():
            stage = f"literal {name}" if measurement.literal else name
            what = f"attack on {stage} updates"
            tasks = _chunks(stage, protected, measurement, len(scenario.records))
            held = [run.committed(task.key) for task in tasks] if run else []
            before = [_hits(payload) for payload in held if payload is not None]
            with Progress(
                what,
                _hits,
                total=sum(len(task.numbers) for task in tasks),
                done=sum(units for units, _ in before),
                successes=sum(hits for _, hits in before),
                quiet=not show_progress,
            ) as progress:
                scheduler = Scheduler(pool, bytes, run=run, watcher=progress)
                payloads = scheduler.run_all({what: _all_of(tasks)})[what]
            found[name] = Outcomes.join(dict(enumerate(payloads)))
    return found.get("protected"), found["control"]


def attack_units(
    scenario: Scenario, measurement: Measurement, criterion: Criterion, numbers: Sequence[int]
) -> Outcomes:
    """Outcomes of the units with these numbers; they are attacked together, as one chunk."""
    task = _Chunk("units", numbers[0], numbers, measurement.protected)
    return Outcomes(**_Job(scenario, measurement, criterion).attack(scenario, task))


@dataclass(frozen=True)
class _Chunk:
    """Units with these numbers, attacked together under the protection or without it."""

    stage: str
    chunk: int
    numbers: Sequence[int]
    protected: bool

    @property
    def key(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"chunk {self.chunk} of {self.stage}"


def _chunks(stage: str, protected: bool, asked: Measurement, clients: int) -> list[_Chunk]:
    total, size = asked.units * clients, asked.chunk
    return [
        _Chunk(stage, chunk, range(first, min(total, first + size)), protected)
        for chunk, first in enumerate(range(0, total, size))
    ]


def _all_of(tasks: Sequence[_Chunk]) -> Procedure[list[bytes]]:
    return (yield tasks)


def _hits(payload: bytes) -> tuple[int, int]:
    """The units in a payload, and how many of their target records were recovered."""
    target = Outcomes.join({0: payload}).target()
    return len(target), int(target.sum())


@dataclass(frozen=True)
class _Job:
    """Makes a worker's function: chunk -> payload."""

    source: Source
    measurement: Measurement
    criterion: Criterion

    def __call__(self) -> Callable[[_Chunk], bytes]:
        scenario = own_scenario(self.source)
        exact = whole_floats(scenario.task.layout.size)
        return patient(exact(lambda task: _save(self.attack(scenario, task))))

    def attack(self, scenario: Scenario, task: _Chunk) -> dict[str, NDArray[Any]]:
        """The arrays of `Outcomes` for the units of one chunk."""
        asked = self.measurement
        seen = observe_units(scenario, asked, task.numbers, protected=task.protected)
        originals, labels = seen.records.inputs, seen.records.labels
        outcomes = []
        for attempt in range(asked.attempts):
            found = find(
                asked.attack,
                seen.views,
                restarts=asked.restarts,
                seed=Seeded(asked.seed).integer("attack", task.protected, task.chunk, attempt),
            )
            inputs = found.inputs.cpu()
            match = self.criterion.match(
                inputs, originals, scenario.input_spec, by_position=asked.literal
            )
            failed = found.failed.cpu() | ~torch.isfinite(inputs).flatten(1).all(1)
            outcomes.append((match, failed))
            if attempt == 0:
                first = scenario.show_records and task.chunk == 0
                shown = min(_PICTURES, len(seen.units)) if first else 0
                partners = match.partner[:shown, :, *[None] * len(scenario.input_spec.shape)]
                pictures = torch.take_along_dim(inputs[:shown], partners, 1)
        if scenario.classes is None:
            labels = torch.full(originals.shape[:2], -1)
        return {
            "client": np.array([unit.client for unit in seen.units]),
            "model": np.array([unit.model for unit in seen.units]),
            "labels": labels.numpy(),
            "recovered": np.stack([match.recovered.numpy() for match, _ in outcomes], axis=1),
            "similarity": np.stack([match.similarity.numpy() for match, _ in outcomes], axis=1),
            "failed": np.stack([failed.numpy() for _, failed in outcomes], axis=1),
            "pictures": pictures.numpy(),
        }


def _save(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _load(payload: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return dict(arrays)
