"""Algorithms 2 and 3: attack fresh units at prepared models, and count what is recovered.

An attack on a unit is judged by optimal assignment (departure E17). Units run in fixed chunks, so
a run can be spread over processes, killed and resumed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch

from trilemma.beliefs.recovery import Criterion
from trilemma.entropy import Seeded
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.units import Measurement, Sight, Source, draw_unit
from trilemma.work.executors import map_chunks
from trilemma.work.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.work.journal import Run

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
        asked, seen = self.measurement, Sight(self.measurement, self.protected)
        units = [draw_unit(scenario, asked, number) for number in numbers]
        batches = [seen.batches(scenario, unit) for unit in units]
        views = seen.views(scenario, units, batches)
        sought = seen.sought(batches, views)
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


def _save(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _load(payload: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return dict(arrays)
