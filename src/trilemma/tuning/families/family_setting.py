"""What the families need to know of a federation, measured on a few updates in seconds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr

from trilemma.entropy import Seeded
from trilemma.federation.deployment_terms import room_for
from trilemma.game.prepared_models import fresh_weights, prepare_models
from trilemma.learning import client_update

if TYPE_CHECKING:
    from trilemma.execution.journal import Run
    from trilemma.game.playing.claims import Claim
    from trilemma.game.scenario import Scenario

__all__ = ["Setting", "separation_for"]

_KEY: Final = "setting"
_MODELS: Final = 8
_RECORDS: Final = 16  # of one client at each model


@dataclass(frozen=True)
class Setting:
    """Sizes of a federation and of its updates; `clients` take part in a round.

    `spread` is the root mean squared distance between the updates that two records of one client
    would give if each were alone in it; a record has 1/S of that in its client's update.
    `largest` is the largest coordinate of the sampled updates, `unknowns` what an attack on one
    update has to find.
    """

    parameters: int
    clients: int
    records: tuple[int, ...]
    unit_size: int
    unknowns: int
    spread: float
    largest: float

    @classmethod
    def of(cls, scenario: Scenario, *, seed: int, steps: int) -> Setting:
        """Measure the federation on a few updates of single records."""
        training, task = scenario.local_training, scenario.task
        weights = prepare_models(scenario, range(_MODELS), steps=steps, seed=seed)
        unit, largest, squared = training.unit_size, 0.0, []
        for number, w in enumerate(weights):
            draw = Seeded(seed).generator("setting", number)
            records = scenario.records[int(draw.integers(len(scenario.records)))]
            rows = torch.from_numpy(draw.permutation(len(records))[:_RECORDS])
            inputs = records.inputs[rows].to(scenario.device)
            labels = records.labels[rows].to(scenario.device)

            def alone(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor = w) -> torch.Tensor:
                whole = x.expand(unit, *x.shape), y.expand(unit, *y.shape)
                return client_update(task, w, *whole, training)

            updates = task.way.vmap(alone)(inputs, labels).double()
            largest = max(largest, float(updates.abs().max()))
            centred = updates - updates.mean(0)
            squared.append(2 * float((centred**2).sum()) / max(1, len(rows) - 1))
        if task.statistics is not None:
            largest = max(largest, _first_change(scenario, seed))
        numbers = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
        return cls(
            parameters=task.layout.size,
            clients=scenario.per_round,
            records=tuple(len(records) for records in scenario.records),
            unit_size=unit,
            unknowns=numbers * unit,
            spread=math.sqrt(float(np.mean(squared))),
            largest=largest,
        )

    @classmethod
    def kept(cls, run: Run) -> Setting | None:
        """What an earlier process of this run measured, if there was one.

        Strengths that are searched follow from it: measured again, on a GPU or another machine,
        it would differ a little, and nothing that the run holds would be asked for any more.
        """
        payload = run.committed(_KEY)
        if payload is None:
            return None
        found = json.loads(payload)
        return cls(**{**found, "records": tuple(found["records"])})

    def keep(self, run: Run) -> None:
        """Have later processes of the run find it."""
        run.first(_KEY, json.dumps(asdict(self)).encode())

    @property
    def weight_cap(self) -> int:
        """What a deployment's clients may weigh together: all records, with room for more."""
        return room_for(sum(self.records))

    def share(self, rounds: int) -> float:
        """The share of a training's rounds that hold a record that is used, on average."""
        return float(np.mean([self._held(rounds, size) for size in self.records])) / rounds

    def _held(self, rounds: int, size: int) -> float:
        """E[K | K ≥ 1] of the rounds K that hold a given record of a client with so many."""
        rate = min(1.0, self.unit_size / size) * self.clients / len(self.records)
        return rounds * rate / (1 - (1 - rate) ** rounds)

    def used(self, rounds: int) -> float:
        """The share of the clients' records that a training uses at all, in expectation."""
        rates = np.minimum(1.0, self.unit_size / np.array(self.records, dtype=np.float64))
        never = (1 - rates * self.clients / len(self.records)) ** rounds
        return float(np.average(1 - never, weights=self.records))

    def noise_for(self, p_max: float, claim: Claim) -> float:
        """The variance on one update at which an attacker who knows all else succeeds with p_max.

        Candidates whose updates are Δ = spread/S apart in independent directions are told from
        one another at a separation of Δ/(s√2) standard deviations; rounds that hold the record
        add up, as many as there are on average of a record that is used.
        """
        apart = separation_for(p_max, claim.candidates)
        often = self._held(claim.rounds, min(self.records)) if claim.rounds > 1 else 1.0
        return often * (self.spread / self.unit_size) ** 2 / (2 * apart**2)


@lru_cache(maxsize=64)
def separation_for(success: float, candidates: int) -> float:
    """μ with ∫ φ(x - μ) Φ(x)^{N-1} dx = success: the best of N, one of them shifted by μ."""

    def rate(mu: float) -> float:
        def density(x: float) -> float:
            return math.exp(-0.5 * (x - mu) ** 2 + (candidates - 1) * log_ndtr(x))

        return float(quad(density, mu - 9, mu + 9, limit=200)[0]) / math.sqrt(2 * math.pi)

    top = min(success, 1 - 1e-6)
    if rate(1e-6) >= top:
        return 1e-6
    return float(brentq(lambda mu: rate(mu) - top, 1e-6, 20.0, xtol=1e-6))


def _first_change(scenario: Scenario, seed: int) -> float:
    """The largest coordinate of first updates: running statistics are farthest from a batch's."""
    training, found = scenario.local_training, 0.0
    for weights in fresh_weights(scenario, range(_MODELS), seed=seed):
        for records in scenario.records[:_RECORDS]:
            rows = torch.arange(training.unit_size)
            inputs = records.inputs[rows].to(scenario.device)
            labels = records.labels[rows].to(scenario.device)
            update = client_update(scenario.task, weights, inputs, labels, training)
            found = max(found, float(update.abs().max()))
    return found
