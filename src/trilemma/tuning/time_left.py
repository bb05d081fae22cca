"""How much work is left, and how long it takes: jobs that are still possible, by CPU seconds.

A procedure's bounds say how few games it can do with and how many it usually takes; one that has
taken as many and goes on may take as many again.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from trilemma.execution.work_seconds import spoken, spoken_range
from trilemma.game.jobs import AttackJob, BeliefJob, Job, TrainJob
from trilemma.protection.specs import parse_protection

if TYPE_CHECKING:
    from trilemma.execution.pool import Spent

__all__ = ["Kind", "Left", "Range", "Remaining", "Work", "amount_of", "busy", "kind_of"]

_BUSY: Final = 1.5  # seconds by the clock for one of CPU, beyond which others hold the work up
_ENOUGH_S: Final = 5.0  # CPU seconds from which on that is said


@dataclass(frozen=True)
class Kind:
    """Jobs whose units cost about the same.

    A unit is a game of `attacks` over `rounds`, a game whose belief is averaged over draws, a
    training of `rounds`, or a pair of timed rounds. `carrier` hides single messages. A proof's
    trainings, and some that it is compared with, go `by_record` and mostly use all records.
    """

    what: Literal["games", "beliefs", "trainings", "timings"]
    attacks: tuple[str, ...] = ()
    rounds: int = 1
    carrier: str = "plain"
    by_record: bool = False


class Range(NamedTuple):
    """Units of work: the fewest that are possible, and as many as there usually are."""

    least: int
    most: int


Work = Mapping[Kind, Range]


class Left(NamedTuple):
    """Seconds at least, and usually at most, without work that was `not_timed`, nor its like."""

    least: float
    most: float
    not_timed: tuple[str, ...]

    @property
    def said(self) -> str:
        """In words."""
        without = f" without {' and '.join(self.not_timed)}" if self.not_timed else ""
        return f"{spoken_range(self.least, self.most)}{without}"


def kind_of(job: Job) -> Kind:
    """The kind of a job."""
    if isinstance(job, TrainJob):
        by_record = job.recipe is not None and job.recipe.local_training.by_record
        return Kind("trainings", rounds=job.rounds, by_record=by_record)
    carrier = parse_protection(job.protection).transport.name
    if isinstance(job, AttackJob | BeliefJob):
        what: Literal["games", "beliefs"] = "games" if isinstance(job, AttackJob) else "beliefs"
        return Kind(what, job.attacks, job.rounds, carrier)
    return Kind("timings", carrier=carrier)


def amount_of(job: Job) -> int:
    """How many units of its kind a job has."""
    if isinstance(job, AttackJob):
        return job.count
    if isinstance(job, BeliefJob):
        return job.count * job.draws
    return 1 if isinstance(job, TrainJob) else job.rounds


def busy(left: Left, wall: float, cpu: float) -> str:
    """That others hold the work up, where they do, and how long it takes so; of seconds spent.

    >>> busy(Left(60.0, 120.0, ()), 30.0, 10.0)
    '; this machine is busy: 3.0 to 6.0 min by the clock'
    """
    if not wall > _BUSY * cpu > _BUSY * _ENOUGH_S:
        return ""
    slower = wall / cpu
    taken = spoken_range(slower * left.least, slower * left.most)
    return f"; this machine is busy: {taken} by the clock"


class Remaining:
    """The work that procedures may still have, by their names, and what a unit of it has taken.

    `share` of a training's rounds hold a game's record, which is what an attack reads. `seconds`
    are CPU seconds a unit that were measured before.
    """

    def __init__(
        self,
        possible: Mapping[str, Work],
        workers: int = 1,
        *,
        share: float = 1.0,
        seconds: Mapping[Kind, float] | None = None,
    ) -> None:
        self._possible, self._workers, self._share = dict(possible), workers, share
        self._owner: dict[str, str] = {}
        self._done: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
        self._units: Counter[Kind] = Counter(dict.fromkeys(seconds or (), 1))
        self._cpu: defaultdict[Kind, float] = defaultdict(float, seconds or {})
        self._spent, self._until = [0.0, 0.0], math.inf

    def expect(self, possible: Mapping[str, Work]) -> None:
        """From now on this is what may come; what units have taken is remembered."""
        self._possible = dict(possible)
        self._done.clear()

    def end_at(self, until: float | None) -> None:
        """Work ends then, by the monotonic clock, whatever is left of it."""
        self._until = math.inf if until is None else until

    def begun(self, procedure: str, job: Job) -> None:
        """A job that a procedure has asked for first."""
        self._owner[job.key] = procedure

    def kept(self, procedure: str, job: Job) -> None:
        """A job that an earlier process has done."""
        self._done[procedure][kind_of(job)] += amount_of(job)

    def finished(self, job: Job, spent: Spent) -> None:
        """A job that took so many seconds of one process."""
        kind = kind_of(job)
        self.kept(self._owner[job.key], job)
        self._units[kind] += amount_of(job)
        self._cpu[kind] += spent.cpu
        self._spent = [self._spent[0] + spent.wall, self._spent[1] + spent.cpu]

    def ended(self, procedure: str) -> None:
        """A procedure has what it wanted."""
        self._possible.pop(procedure, None)

    def left(self) -> Left | None:
        """How long it takes from here, if all workers are busy; None before anything was timed."""
        least, most, unknown = 0.0, 0.0, set[str]()
        if not self._units:
            return None
        for name, work in self._possible.items():
            for kind, (few, usual) in work.items():
                done, unit = self._done[name][kind], self.seconds(kind)
                many = usual
                while few < many < done:
                    many += usual
                if unit is None:
                    unknown.update([kind.what] * (many > 0))
                else:
                    least += unit * max(0, few - done)
                    most += unit * max(0, many - done)
        return Left(least / self._workers, most / self._workers, tuple(sorted(unknown)))

    def said(self) -> str:
        """What is left, in words; before anything was timed the games that there usually are."""
        left = self.left()
        if left is None:
            games = [item for work in self._possible.values() for item in _games(work)]
            least, most = (sum(column) for column in zip(*games, strict=True)) if games else (0, 0)
            return f"{least:,} to {most:,} games are usual" if least < most else ""
        (wall, cpu), within = self._spent, max(0.0, self._until - time.monotonic())
        if left.most > within:
            return f"at most {spoken(within)} left"
        return f"{left.said} left{busy(left, wall, cpu)}"

    def seconds(self, kind: Kind) -> float | None:
        """CPU seconds of a unit: measured, or of the kind most alike; None where there is none."""
        if self._units[kind]:
            return self._cpu[kind] / self._units[kind]
        if kind.what == "timings":
            return self._mean(unit for unit in self._units if unit.what == "timings")
        if kind.what == "trainings":
            trainings = [unit for unit in self._units if unit.what == "trainings"]
            alike = [unit for unit in trainings if unit.by_record == kind.by_record]
            per_round = self._mean(alike or trainings, by_round=True)
            return None if per_round is None else per_round * kind.rounds
        alone = [self._alone(name, kind) for name in kind.attacks]
        return None if None in alone else sum(filter(None, alone))

    def _alone(self, attack: str, like: Kind) -> float | None:
        """Of one attack on a unit of this kind, from the kind that is most alike.

        Of another attack where this one was not made yet; over other rounds, by what it reads.
        """
        games = [item for item in self._units if item.what in ("games", "beliefs")]
        able = [item for item in games if attack in item.attacks] or games
        if not able:
            return None
        best = min(
            able,
            key=lambda kind: (
                len(kind.attacks),
                kind.what != like.what,
                kind.rounds != like.rounds,
                kind.carrier != like.carrier,
            ),
        )
        unit = self._cpu[best] / self._units[best] / len(best.attacks)
        return unit * self._views(like.rounds) / self._views(best.rounds)

    def _views(self, rounds: int) -> float:
        return 1.0 if rounds == 1 else self._share * rounds

    def _mean(self, kinds: Iterable[Kind], *, by_round: bool = False) -> float | None:
        units = [
            self._cpu[kind] / self._units[kind] / (kind.rounds if by_round else 1)
            for kind in kinds
        ]
        return sum(units) / len(units) if units else None


def _games(work: Work) -> Iterable[Range]:
    return (value for kind, value in work.items() if kind.what == "games")
