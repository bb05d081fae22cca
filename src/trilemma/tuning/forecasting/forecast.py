"""How long a tuning takes from here: the units that are left, times what a unit has taken."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, TrainJob
from trilemma.protections.specs import in_words
from trilemma.tuning.forecasting.kinds import Kind, amount_of, kind_of
from trilemma.work.clock import spoken

if TYPE_CHECKING:
    from trilemma.estimation.jobs import Job

__all__ = ["Forecast"]

_CONTROL: Final = "control"
_LATER: Final = 1.3  # times as many tasks: playing a tuning through takes a tenth of a second


class Forecast:
    """The work expected of each kind, what is done of it, and how long a unit takes.

    `views` says how many rounds of a training of so many hold the record, on average: an attack
    reads one update for each. `speeds` are seconds a unit that were measured before. What was not
    measured is taken from its next of kin: the same attack over other rounds, at so much a view;
    attacks that ran together share their time evenly. The control has `control` tasks; after it,
    `anew` says from time to time what is expected now (None: as before).
    """

    def __init__(
        self,
        expected: Mapping[Kind, int],
        views: Mapping[int, float],
        *,
        workers: int = 1,
        speeds: Mapping[Kind, float] | None = None,
        control: int = 1,
        anew: Callable[[], Mapping[Kind, int] | None] | None = None,
    ) -> None:
        self.expected, self._views, self._workers = Counter(expected), dict(views), workers
        self._done: Counter[Kind] = Counter()
        self._timed: Counter[Kind] = Counter()
        self._seconds: defaultdict[Kind, float] = defaultdict(float)
        self._told, self._control = False, control
        self._anew, self._tasks, self._next = anew, 0, 0
        for kind, each in (speeds or {}).items():
            self._timed[kind], self._seconds[kind] = 1, each

    def kept(self, task: Job) -> None:
        """A task that an earlier process has done."""
        self._done[kind_of(task)] += amount_of(task)
        self._control -= _is_control(task)

    def finished(self, task: Job, seconds: float) -> None:
        """A task that took so many seconds of one process."""
        kind, amount = kind_of(task), amount_of(task)
        self._done[kind] += amount
        self._timed[kind] += amount
        self._seconds[kind] += seconds
        self._control -= _is_control(task)
        self._tasks += 1
        if self._anew is not None and self._control <= 0 and self._tasks >= self._next:
            self._next = math.ceil(_LATER * self._tasks)
            self.expected = Counter(self._anew() or self.expected)

    def left(self) -> float | None:
        """Seconds from here, if all workers are busy; None before anything was timed."""
        if not any(kind.what == "games" for kind in self._timed):
            return None
        units = {kind: self.expected[kind] - self._done[kind] for kind in self.expected}
        seconds = (self.speed(kind) * count for kind, count in units.items() if count > 0)
        return sum(seconds) / self._workers

    def news(self) -> str:
        """Once the control is done, how long everything is going to take."""
        left = self.left()
        if self._told or self._control > 0 or left is None:
            return ""
        self._told = True
        games = sum(count for kind, count in self.expected.items() if kind.what == "games")
        processes = "one process" if self._workers == 1 else f"{self._workers} processes"
        return f"about {spoken(left)} from here with {processes}: some {games:,} games in all"

    def speed(self, kind: Kind) -> float:
        """Seconds of a unit: measured, or from its next of kin; 0 where nothing is known."""
        if kind in self._timed:
            return self._seconds[kind] / self._timed[kind]
        if kind.what == "timings":
            return self._mean(each for each in self._timed if each.what == "timings")
        if kind.what == "trainings":
            like = [each for each in self._timed if each.what == "trainings"]
            rates = [self.speed(each) / each.rounds for each in like]
            if rates:
                return kind.rounds * sum(rates) / len(rates)
            return self._mean(each for each in self._timed if each.rounds == kind.rounds > 1)
        return sum(self._alone(name, kind) for name in kind.attacks) * self._views[kind.rounds]

    def _mean(self, kinds: Iterable[Kind]) -> float:
        found = [self.speed(each) for each in kinds]
        return sum(found) / len(found) if found else 0.0

    def _alone(self, attack: str, like: Kind) -> float:
        """Seconds of one attack on one view, from the kind that is most alike."""
        able = [each for each in self._timed if attack in each.attacks]
        if not able:
            able = [each for each in self._timed if each.what == "games"]
        if not able:
            return 0.0
        best = min(
            able,
            key=lambda each: (
                len(each.attacks),
                each.rounds != like.rounds,
                each.carrier != like.carrier,
            ),
        )
        return self.speed(best) / len(best.attacks) / self._views[best.rounds]

    def said(self, task: Job) -> str:
        """What a task does, in words, and how much of its kind is done."""
        kind = kind_of(task)
        done, total = self._done[kind], max(self._done[kind], self.expected[kind])
        share = f"{done} of about {total} {kind.what}" if total else ""
        return f"{_words(task)}: {share}" if share else _words(task)


def _is_control(task: Job) -> bool:
    return isinstance(task, AttackJob) and task.stream == _CONTROL


def _words(task: Job) -> str:
    where = in_words(task.protection)
    if isinstance(task, TrainJob):
        return f"training under {where}"
    if isinstance(task, CostJob):
        return f"timing rounds under {where}"
    over = "one round" if task.rounds == 1 else f"{task.rounds} rounds"
    if isinstance(task, BeliefJob):
        return f"asking {' and '.join(task.attacks)} what they believe under {where} over {over}"
    many = len(task.attacks) > 1
    by = f"{len(task.attacks)} attacks" if many else task.attacks[0]
    return f"{_doing(task)} {where} with {by} over {over}"


def _doing(task: AttackJob) -> str:
    if _is_control(task):
        return "attacking"
    if task.stream.startswith("gallery"):
        return "drawing"
    if task.stream.startswith(("front", "rounds")):
        return "measuring"
    return "testing" if ", attempt" in task.stream or task.stream == "beside" else "trying"
