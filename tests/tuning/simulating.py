"""A bench on which nothing is attacked or trained: picks are right at rates that are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

from trilemma.entropy import Seeded
from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, Job, TrainJob
from trilemma.estimation.playing.claims import checkpoints
from trilemma.estimation.scenario import Scenario
from trilemma.federation.timing import RoundCosts, Spent
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.work.replay import Ask

__all__ = ["Simulated", "asking", "simulate"]

# The leading attack of each rung is the strongest of it.
_MIDDLE = {"map": 1e-4, "gaussian-posterior": 1e-3, "exact-posterior": 1e-2}


@dataclass(frozen=True)
class Simulated(Bench):
    """Every payload follows from the task, the seed and the laws below.

    A pick from a message is right with probability 1/(1 + v/m) under noise of variance v, `middle`
    m by attack; from a bare sum at the rate `summed`, and never more often under noise; of what is
    thinned to less than a tenth never. `lost` is the metric that a protection costs, by the word
    that its text begins with; one among `diverging` cannot be trained.
    """

    middle: Mapping[str, float] = field(default_factory=lambda: dict(_MIDDLE))
    usual: float = 1e-5
    summed: float = 0.02
    lost: Mapping[str, float] = field(default_factory=dict)
    diverging: tuple[str, ...] = ()
    spread: float = 1e-3

    def __call__(self) -> Callable[[Job], bytes]:
        scenario = self.source if isinstance(self.source, Scenario) else self.source()
        return lambda task: json.dumps(self._answer(task, scenario)).encode()

    def rate(self, attack: str, protection: Protection, adversary: Adversary) -> float:
        """How often an attack picks right."""
        noise, kept = 0.0, 1.0
        for each in protection.transforms:
            if isinstance(each, Randomization):
                noise = each.variance
            if isinstance(each, Compression):
                assert isinstance(each.keep, float)
                kept = each.keep
        alone = 1 / (1 + noise / self.middle.get(attack, self.usual)) if kept > 0.1 else 0.0
        in_sum = adversary is Adversary.CLIENT or protection.transport.server_reads != "messages"
        return min(alone, self.summed) if in_sum else alone

    def _answer(self, task: Job, scenario: Scenario) -> dict[str, object]:
        if isinstance(task, AttackJob):
            return self._won(task, scenario)
        if isinstance(task, BeliefJob):
            clients = [n % len(scenario.records) for n in range(task.count)]
            values = [0.1 + 0.1 * k for k in clients]
            return {"client": clients, "leakage": dict.fromkeys(task.attacks, values)}
        if task.protection.startswith(self.diverging or "\n"):
            return {"diverged": f"{task.protection} diverged."}
        return self._timed(task) if isinstance(task, CostJob) else self._trained(task, scenario)

    def _won(self, task: AttackJob, scenario: Scenario) -> dict[str, object]:
        numbers = range(task.first, task.first + task.count)
        stream = Seeded(self.seed).child("stream", task.stream)
        clients = len(scenario.records)
        client = [int(stream.generator("client", n).integers(clients)) for n in numbers]
        protection = parse_protection(task.protection)

        def right(attack: str, share: float = 1.0) -> list[bool]:
            rate = share * self.rate(attack, protection, task.adversary)
            return [bool(stream.generator(attack, n).random() < rate) for n in numbers]

        found: dict[str, object] = {
            "client": client,
            "rounds": [1] * task.count,
            "correct": {name: right(name) for name in task.attacks},
            "failed": dict.fromkeys(task.attacks, 0),
        }
        found["after"] = {
            name: {str(t): right(name, t / task.rounds) for t in checkpoints(task.rounds)}
            for name in task.attacks
        }
        if task.pictures and scenario.show_records:
            grey = [[n % 256] * scenario.input_spec.size for n in numbers[: task.pictures]]
            shown = {"made": grey, "picked": grey, "correct": [True] * len(grey)}
            found["pictures"] = {"tagged": grey, "attacks": dict.fromkeys(task.attacks, shown)}
        return found

    def _trained(self, task: TrainJob, scenario: Scenario) -> dict[str, object]:
        first = task.protection.partition(":")[0]
        jitter = self.spread * float(torch.tensor(task.seed).sin()) * (first != "none")
        metric = 0.9 - self.lost.get(first, 0.0) + jitter
        clients = list(range(len(scenario.records)))
        whole: dict[str, object] = {"clients": clients, "loss": 1.0, "metric": metric}
        return {
            "rounds": [{"number": number, **whole} for number in range(task.rounds)],
            "client_metrics": [metric] * len(clients),
            "one_by_one": None,
            "scores": None,
            "client_scores": [None] * len(clients),
        }

    def _timed(self, task: CostJob) -> dict[str, object]:
        bare = Spent(1000.0, 1000.0, 1e-3, 0.0, 1e-4, 0.0)
        kept = 0.2 if task.protection.startswith("compression") else 1.0
        shared = 2.0 if "secret-sharing" in task.protection else kept
        many = 30.0 if "paillier" in task.protection else shared
        full = Spent(1000.0 * many, 1000.0 * many, 1e-3, 1e-4 * many, 1e-4, 0.0)
        within = bare if task.protection == "none" else full
        return {**RoundCosts((bare,) * task.rounds, (within,) * task.rounds).as_json()}


def simulate(monkeypatch: pytest.MonkeyPatch, **laws: Any) -> None:
    """Let every tuning of this test be simulated, by these laws."""
    for module in ("plan", "again"):
        monkeypatch.setattr(f"trilemma.tuning.{module}.Bench", partial(Simulated, **laws))


def asking(bench: Bench, done: list[Job] | None = None) -> Ask:
    """Answers at once; `done` takes the tasks."""
    work = bench()

    def ask(tasks: Sequence[Job]) -> list[bytes]:
        if done is not None:
            done.extend(tasks)
        return [work(task) for task in tasks]

    return ask
