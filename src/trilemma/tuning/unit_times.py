"""CPU seconds that a unit of each kind of work takes here: a few games of each attack, timed.

What is done for the first time traces, imports and fills caches, which may take a thousand times
as long as the work itself: it is done once more before it is timed, and counted once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilemma.game.jobs import AttackJob, CostJob, Job, TrainJob
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.time_left import Kind

if TYPE_CHECKING:
    from trilemma.execution.pool import WorkerPool
    from trilemma.federation.recipe import Recipe
    from trilemma.tuning.plan import Plan

__all__ = ["FIRST", "Timed", "timed"]

_START_S: Final = 120.0  # for a fresh process that reads the data
_ENOUGH_S: Final = 8.0  # after these nothing is timed again, and only what has no next of kin
_PATIENCE_S: Final = 60.0  # for all that is timed ...
_LEAST_S: Final = 5.0  # ... and for a task at least; what takes longer is stopped
_BRIEF_S: Final = 1.0  # what takes longer is timed once
_FEW: Final = 6  # games of one task, as in most of a tuning's, which take less than one by one
_LONG_S: Final = 5.0  # games that take longer, some of it for the first, are timed alone
_TRIES: Final = 2  # the shorter counts: others may have held one up
_ROUNDS: Final = 2  # of a training that is timed ...
_SOME_ROUNDS: Final = 10  # ... and how many more tell what a round takes; or that are attacked
FIRST: Final = TrainJob("none", 0, _ROUNDS)


@dataclass(frozen=True)
class Timed:
    """CPU seconds a unit, with one start of each attack, and those that a process takes `once`.

    What was `stopped` took too long, and has none. `wall` and `cpu` are seconds of all of it.
    """

    seconds: dict[Kind, float]
    stopped: frozenset[Kind]
    once: float = 0.0
    wall: float = 0.0
    cpu: float = 0.0


def timed(
    pool: WorkerPool[Job],
    plan: Plan,
    every: Iterable[Kind],
    others: Iterable[Kind],
    tell: Callable[[str], None],
) -> Timed:
    """Time a unit of `every` kind of work, and of `others` while there is time.

    The pool, of one process, has a training to do already (`FIRST`). Where a task takes
    too long, a fresh process goes on with the next.
    """
    seconds: dict[Kind, float] = {}
    stopped: set[Kind] = set()
    tell("starting a process to time in")
    pool.next(within=_START_S)
    watch = _Watch(pool, plan, pool.spent.cpu)
    for needed, kinds in ((True, every), (False, others)):
        for kind in kinds:
            if kind in seconds or (watch.late and not needed):
                continue
            tell(_said(kind))
            seconds[kind], done = watch.measured(kind)
            if not done:
                stopped.add(kind)
                pool.drop()
                pool.submit(FIRST)
                pool.next(within=_START_S)
    return Timed(seconds, frozenset(stopped), watch.once, watch.wall, watch.cpu)


class _Watch:
    """Times jobs in a pool's process, each with games of its own: what was drawn is kept."""

    def __init__(self, pool: WorkerPool[Job], plan: Plan, once: float) -> None:
        self._pool, self._plan, self._games, self.once = pool, plan, 0, once
        self._begun = time.monotonic()
        self.wall = self.cpu = 0.0

    @property
    def late(self) -> bool:
        return time.monotonic() > self._begun + _ENOUGH_S

    def measured(self, kind: Kind) -> tuple[float, bool]:
        """Seconds of a unit; or none, and False, where it was stopped."""
        ways = {"trainings": self._training, "timings": self._costs}
        try:
            once = ways.get(kind.what, self._game)(kind)
        except TimeoutError:
            return 0.0, False
        return once, True

    def _training(self, kind: Kind) -> float:
        """Of a few rounds, and a line through more of them: a training ends with its judgement."""
        spec, recipe = _protection(self._plan, "plain"), _recipe(self._plan, kind)
        first = self._seconds(TrainJob(spec, 0, _ROUNDS, recipe))
        short = self._least(lambda: TrainJob(spec, 0, _ROUNDS, recipe))
        self.once += max(0.0, first - short)
        if short > _BRIEF_S:
            return short * kind.rounds / _ROUNDS
        long = self._least(lambda: TrainJob(spec, 0, _ROUNDS + _SOME_ROUNDS, recipe))
        return short + max(0.0, long - short) / _SOME_ROUNDS * (kind.rounds - _ROUNDS)

    def _costs(self, kind: Kind) -> float:
        task = CostJob(_protection(self._plan, kind.carrier), 1)
        first = self._seconds(task)
        seconds = first if first > _BRIEF_S else min(first, self._seconds(task))
        self.once += first - seconds
        return seconds

    def _game(self, kind: Kind) -> float:
        """Of a training that is attacked some rounds are timed."""
        some = replace(kind, rounds=min(kind.rounds, _SOME_ROUNDS))
        first = self._seconds(self._played(some, 1))
        count = _FEW if first < _LONG_S else 1
        game = self._least(lambda: self._played(some, count)) / count
        self.once += max(0.0, first - game)
        return game * kind.rounds / some.rounds

    def _played(self, kind: Kind, count: int) -> Job:
        spec, stream = _protection(self._plan, kind.carrier), f"timed, {kind.rounds} rounds"
        adversary, first = self._plan.request.adversary, self._games
        self._games += count
        return AttackJob(stream, spec, kind.attacks, adversary, kind.rounds, first, count)

    def _least(self, task: Callable[[], Job]) -> float:
        """Seconds of the task, the least of some tries while there is time."""
        found = self._seconds(task())
        for _ in range(_TRIES - 1):
            if found < _BRIEF_S and not self.late:
                found = min(found, self._seconds(task()))
        return found

    def _seconds(self, task: Job) -> float:
        self._pool.submit(task)
        left = self._begun + _PATIENCE_S - time.monotonic()
        self._pool.next(within=max(_LEAST_S, left))
        self.wall += self._pool.spent.wall
        self.cpu += self._pool.spent.cpu
        return self._pool.spent.cpu


def _said(kind: Kind) -> str:
    if kind.what == "games":
        over = "one round" if kind.rounds == 1 else f"{kind.rounds} rounds"
        where = "the sum" if kind.carrier == "secret-sharing" else "single messages"
        return f"timing {', '.join(kind.attacks)} on {where} of {over}"
    if kind.what == "trainings":
        return f"timing a training{' of a proof' if kind.by_record else ''}"
    return f"timing rounds with {kind.carrier}"


def _recipe(plan: Plan, kind: Kind) -> Recipe | None:
    """How a training of this kind goes: as the federation's own (None), or as a proof's."""
    proved = [family.carrier for family in plan.families if plan.proves(family)]
    if not (kind.by_record and proved):
        return None
    return Proof.of(plan, proved[0]).recipe(plan.scenario, plan.pricing.rounds)


def _protection(plan: Plan, carrier: str) -> str:
    """A protection of the plan with this carrier, where its search begins."""
    for family in plan.families:
        if family.carrier == carrier and (family.mechanism is not None or carrier == "paillier"):
            if carrier == "paillier":
                return family.protection(0.0).describe()
            return family.attacked(0.0, plan.request.adversary).describe()
    hidden = Protection(transport=SecretSharing())
    return (hidden if carrier == "secret-sharing" else Protection()).describe()
