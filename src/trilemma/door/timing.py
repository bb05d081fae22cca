"""Seconds that a unit of each kind of work takes here: a few games of each attack, timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.estimation.jobs import AttackJob, CostJob, Job, TrainJob
from trilemma.protections.protection import Protection
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.forecasting.kinds import Kind, kind_of
from trilemma.work.executors import Crew

if TYPE_CHECKING:
    from trilemma.estimation.bench import Bench
    from trilemma.tuning.plan import Plan

__all__ = ["Timed", "timed"]

_PATIENCE_S: Final = 20.0  # for one game; a slower attack is stopped, and its limit counted
_START_S: Final = 120.0  # for a fresh process that reads the data
_BRIEF_S: Final = 1.0  # games that take less are timed again, as many as a task has
_BEARABLE_S: Final = 6.0  # games that take more are timed once
_FEW, _MANY = 4, 16
_ROUNDS: Final = 2  # of a training that is timed


@dataclass(frozen=True)
class Timed:
    """Seconds a unit; what was `stopped` takes longer than these say."""

    seconds: dict[Kind, float]
    stopped: frozenset[Kind]


def timed(plan: Plan, bench: Bench, kinds: Iterable[Kind], tell: Callable[[str], None]) -> Timed:
    """Time a unit of each of these kinds of work, in a process of its own."""
    seconds: dict[Kind, float] = {}
    stopped = set()
    waiting = [TrainJob("none", 0, _ROUNDS), *(_task(plan, kind, 1) for kind in kinds)]
    patience = _START_S
    while waiting:
        with Crew[Job](bench, workers=2) as crew:  # two: one would work in this process
            while waiting:
                task = waiting.pop(0)
                kind = kind_of(task)
                tell(_said(kind))
                try:
                    seconds[kind] = _seconds(crew, task, patience)
                    if kind.what == "games":
                        seconds[kind] = _batched(crew, plan, kind, seconds[kind])
                except TimeoutError:
                    seconds[kind] = patience
                    stopped.add(kind)
                    patience = _START_S
                    break
                patience = _PATIENCE_S
    return Timed(seconds, frozenset(stopped))


def _batched(crew: Crew[Job], plan: Plan, kind: Kind, one: float) -> float:
    """Seconds of a game where a task has many, which are played together.

    Many are timed where one is brief; else a few, from which a line is drawn to many.
    """
    if one > _BEARABLE_S:
        return one
    if one < _BRIEF_S:
        return _seconds(crew, _task(plan, kind, _MANY), _MANY * _PATIENCE_S) / _MANY
    few = _seconds(crew, _task(plan, kind, _FEW), _FEW * _PATIENCE_S)
    slope = max(0.0, few - one) / (_FEW - 1)
    return (one + slope * (_MANY - 1)) / _MANY


def _seconds(crew: Crew[Job], task: Job, patience: float) -> float:
    crew.submit(task)
    crew.next(within=patience)
    return crew.spent


def _said(kind: Kind) -> str:
    if kind.what == "games":
        over = "one round" if kind.rounds == 1 else f"{kind.rounds} rounds"
        where = "the sum" if kind.carrier == "secret-sharing" else "single messages"
        return f"timing {', '.join(kind.attacks)} on {where} of {over}"
    return (
        "timing a training" if kind.what == "trainings" else f"timing rounds with {kind.carrier}"
    )


def _task(plan: Plan, kind: Kind, count: int) -> Job:
    spec = _protection(plan, kind.carrier)
    if kind.what == "timings":
        return CostJob(spec, 1)
    stream = f"timed, {kind.rounds} rounds"
    return AttackJob(stream, spec, kind.attacks, plan.request.adversary, kind.rounds, 0, count)


def _protection(plan: Plan, carrier: str) -> str:
    """A protection of the plan with this carrier, where its search begins."""
    for family in plan.families:
        if family.carrier == carrier and (family.mechanism is not None or carrier == "paillier"):
            if carrier == "paillier":
                return family.protection(0.0).describe()
            return family.attacked(0.0, plan.request.adversary).describe()
    hidden = Protection(transport=SecretSharing())
    return (hidden if carrier == "secret-sharing" else Protection()).describe()
