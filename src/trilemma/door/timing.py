"""Seconds that a unit of each kind of work takes here: a few games of each attack, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilemma.estimation.jobs import AttackJob, CostJob, Job, TrainJob
from trilemma.protections.protection import Protection
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.forecasting.kinds import Kind, kind_of

if TYPE_CHECKING:
    from trilemma.tuning.plan import Plan
    from trilemma.work.executors import Crew

__all__ = ["FIRST", "Timed", "timed"]

_START_S: Final = 120.0  # for a fresh process that reads the data
_ENOUGH_S: Final = 4.0  # for all that is timed; what is left then is told from its next of kin
_PATIENCE_S: Final = 3.0  # for one game; a slower attack is stopped, and its limit counted
_BRIEF_S: Final = 0.3  # games that take less are timed again, as many as a task has
_BEARABLE_S: Final = 1.5  # games that take more are timed once
_FEW, _MANY = 4, 16
_ROUNDS: Final = 2  # of a training that is timed
_SOME_ROUNDS: Final = 10  # of a training that is attacked
FIRST: Final = TrainJob("none", 0, _ROUNDS)


@dataclass(frozen=True)
class Timed:
    """Seconds a unit, with one start of each attack; what was `stopped` takes longer."""

    seconds: dict[Kind, float]
    stopped: frozenset[Kind]


def timed(
    crew: Crew[Job], plan: Plan, kinds: Iterable[Kind], tell: Callable[[str], None]
) -> Timed:
    """Time a unit of each of these kinds of work, while there is time and until one is too slow.

    The crew, in a process of its own, has a training to do already (`FIRST`).
    """
    seconds: dict[Kind, float] = {}
    tell(_said(kind_of(FIRST)))
    crew.next(within=_START_S)
    seconds[kind_of(FIRST)] = crew.spent
    end = time.monotonic() + _ENOUGH_S
    for kind in kinds:
        if time.monotonic() > end:
            break
        tell(_said(kind))
        try:
            seconds[kind] = _measured(crew, plan, kind)
        except TimeoutError:
            seconds[kind] = _PATIENCE_S
            return Timed(seconds, frozenset([kind]))
    return Timed(seconds, frozenset())


def _measured(crew: Crew[Job], plan: Plan, kind: Kind) -> float:
    """Seconds of a unit where a task has many, which are done together.

    Many games of one round are timed where one is brief; else a few, from which a line is drawn.
    Of a training that is attacked some rounds are timed, after others of the same shapes.
    """
    if kind.what != "games":
        return _seconds(crew, _task(plan, kind, 1))
    if kind.rounds > 1:
        some = replace(kind, rounds=min(kind.rounds, _SOME_ROUNDS))
        _seconds(crew, _task(plan, some, _FEW))
        again = _seconds(crew, _task(plan, some, _FEW))
        return again / _FEW * kind.rounds / some.rounds
    one = _seconds(crew, _task(plan, kind, 1))
    if one > _BEARABLE_S:
        return one
    if one < _BRIEF_S:
        return _seconds(crew, _task(plan, kind, _MANY)) / _MANY
    few = _seconds(crew, _task(plan, kind, _FEW))
    slope = max(0.0, few - one) / (_FEW - 1)
    return (one + slope * (_MANY - 1)) / _MANY


def _seconds(crew: Crew[Job], task: Job) -> float:
    crew.submit(task)
    crew.next(within=_PATIENCE_S)
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
