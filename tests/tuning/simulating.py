"""A bench on which nothing is attacked or trained: picks are right at rates that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import pytest
import torch

from trilemma.entropy import Seeded
from trilemma.execution.scheduler import Procedure
from trilemma.federation.round_timing import RoundCosts, Spent
from trilemma.federation.training import History, Round
from trilemma.game.job_results import (
    AttackResult,
    BeliefResult,
    Failed,
    Pictures,
    Result,
    Shown,
    decode,
    encode,
)
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, BeliefJob, CostJob, Job, TrainJob
from trilemma.game.playing.claims import checkpoints
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization

__all__ = ["Runner", "Simulated", "answered", "runner", "simulate"]

Found = TypeVar("Found")

# The leading attack of each knowledge is the strongest of it.
_MIDDLE = {"map": 1e-4, "gaussian-posterior": 1e-3, "exact-posterior": 1e-2}


@dataclass(frozen=True)
class Simulated(JobRunner):
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
        return lambda task: encode(self._answer(task, scenario))

    def rate(self, attack: str, protection: Protection, adversary: Adversary) -> float:
        """How often an attack guesses right."""
        noise, kept = 0.0, 1.0
        for transform in protection.transforms:
            if isinstance(transform, Randomization):
                noise = transform.variance
            if isinstance(transform, Compression):
                assert isinstance(transform.keep, float)
                kept = transform.keep
        alone = 1 / (1 + noise / self.middle.get(attack, self.usual)) if kept > 0.1 else 0.0
        in_sum = adversary is Adversary.CLIENT or protection.transport.server_reads != "messages"
        return min(alone, self.summed) if in_sum else alone

    def _answer(self, task: Job, scenario: Scenario) -> Result:
        if isinstance(task, AttackJob):
            return self._won(task, scenario)
        if isinstance(task, BeliefJob):
            clients = [n % len(scenario.records) for n in range(task.count)]
            values = [0.1 + 0.1 * k for k in clients]
            return BeliefResult(clients, dict.fromkeys(task.attacks, values))
        if task.protection.startswith(self.diverging or "\n"):
            return Failed(f"{task.protection} diverged.")
        return self._timed(task) if isinstance(task, CostJob) else self._trained(task, scenario)

    def _won(self, task: AttackJob, scenario: Scenario) -> AttackResult:
        numbers = range(task.first, task.first + task.count)
        stream = Seeded(self.seed).child("stream", task.stream)
        clients = len(scenario.records)
        client = [int(stream.generator("client", n).integers(clients)) for n in numbers]
        protection = parse_protection(task.protection)

        def right(attack: str, share: float = 1.0) -> list[bool]:
            rate = share * self.rate(attack, protection, task.adversary)
            return [bool(stream.generator(attack, n).random() < rate) for n in numbers]

        pictures = None
        if task.pictures and scenario.show_records:
            grey = [[n % 256] * scenario.input_spec.size for n in numbers[: task.pictures]]
            shown = Shown(grey, grey, [True] * len(grey))
            pictures = Pictures(grey, dict.fromkeys(task.attacks, shown))
        return AttackResult(
            client=client,
            rounds=[1] * task.count,
            correct={name: right(name) for name in task.attacks},
            failed=dict.fromkeys(task.attacks, 0),
            after={
                name: {t: right(name, t / task.rounds) for t in checkpoints(task.rounds)}
                for name in task.attacks
            },
            pictures=pictures,
        )

    def _trained(self, task: TrainJob, scenario: Scenario) -> History:
        first = task.protection.partition(":")[0]
        jitter = self.spread * float(torch.tensor(task.seed).sin()) * (first != "none")
        metric = 0.9 - self.lost.get(first, 0.0) + jitter
        clients = tuple(range(len(scenario.records)))
        return History(
            rounds=tuple(Round(n, clients, 1.0, metric) for n in range(task.rounds)),
            weights=torch.empty(0),
            client_metrics=(metric,) * len(clients),
            one_by_one=None,
            client_scores=(None,) * len(clients),
        )

    def _timed(self, task: CostJob) -> RoundCosts:
        bare = Spent(1000.0, 1000.0, 1e-3, 0.0, 1e-4, 0.0)
        kept = 0.2 if task.protection.startswith("compression") else 1.0
        shared = 2.0 if "secret-sharing" in task.protection else kept
        many = 30.0 if "paillier" in task.protection else shared
        full = Spent(1000.0 * many, 1000.0 * many, 1e-3, 1e-4 * many, 1e-4, 0.0)
        within = bare if task.protection == "none" else full
        return RoundCosts((bare,) * task.rounds, (within,) * task.rounds)


def simulate(monkeypatch: pytest.MonkeyPatch, **distributions: Any) -> None:
    """Let every tuning of this test be simulated, by these laws."""
    for module in ("plan", "replication"):
        monkeypatch.setattr(
            f"trilemma.tuning.{module}.JobRunner", partial(Simulated, **distributions)
        )


class Runner(Protocol):
    """Plays one procedure to its end."""

    def __call__(self, procedure: Procedure[Found], /) -> Found: ...


def runner(job_runner: JobRunner, done: list[Job] | None = None) -> Runner:
    """Plays procedures whose jobs a bench does at once; `done` takes the jobs."""
    work = job_runner()

    def results(jobs: Sequence[Job]) -> list[Any]:
        if done is not None:
            done.extend(jobs)
        return [decode(work(job)) for job in jobs]

    return lambda procedure: answered(procedure, results)


def answered(
    procedure: Procedure[Found], results: Callable[[Sequence[Any]], Sequence[Any]]
) -> Found:
    """What a procedure returns whose jobs have these results."""
    try:
        jobs = next(procedure)
        while True:
            jobs = procedure.send(list(results(jobs)))
    except StopIteration as end:
        found: Found = end.value
        return found
