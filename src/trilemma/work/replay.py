"""Several procedures at once, by replay: each asks for measurements, none waits for another.

A procedure is a plain function of `ask`. Where it asks for what is not measured yet, it is left
there; the measurements are made, journaled, and the procedure runs again from its start, which
costs milliseconds, because everything it asked for before is at hand. A run that was killed is
therefore resumed by the very steps by which an undisturbed one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilemma.errors import TrilemmaError

if TYPE_CHECKING:
    from trilemma.work.executors import Executor, Job
    from trilemma.work.journal import Run

__all__ = ["Ahead", "Ask", "Procedure", "Then", "Watcher", "hand_out_early", "settle"]

_LATER: Final = 1  # guesses: what comes in a later call can wait for what this one may need soon
_FAR: Final = 6  # guesses: what rests on more is hardly ever asked for, and slows the rest down


class Ask(Protocol):
    """The payloads of some tasks, in their order; a procedure knows its own kinds of them."""

    def __call__(self, tasks: Sequence[Any]) -> list[bytes]: ...


Procedure = Callable[[Ask], Any]
Then = Callable[[Mapping[str, Any]], Mapping[str, Procedure]]
"""The procedures that follow, whatever else is found, on those that ended with these results."""


class Watcher(Protocol):
    """Sees tasks begin and end, to show progress; `kept` are those that were done before."""

    def kept(self, task: Job) -> None: ...

    def begun(self, task: Job) -> None: ...

    def finished(self, task: Job, payload: bytes, seconds: float) -> None: ...


class _NotYet(Exception):
    """Leaves a procedure whose tasks are not done."""

    def __init__(self, tasks: list[Job]) -> None:
        self.tasks = tasks


def settle(
    procedures: Mapping[str, Procedure],
    crew: Executor[Any],
    *,
    run: Run | None = None,
    ticker: Watcher | None = None,
    known: dict[tuple[str, int], bytes] | None = None,
    ahead: Ahead | None = None,
    then: Then | None = None,
) -> dict[str, Any]:
    """The result of each procedure, by name; tasks of all of them run side by side.

    `known` holds payloads of earlier calls and takes those of this one. Where workers would wait,
    they work `ahead`: on these procedures, and on what comes `then`, in a later call.
    """
    known = {} if known is None else known
    desk = _Desk(crew, _Journal(run, known), ticker, ahead)

    def ask(tasks: Sequence[Job]) -> list[bytes]:
        payloads = desk.journal.ask(tasks)
        for task in tasks:
            asked.add(task.key())
            if ticker is not None and task.key() not in desk.wanted:
                ticker.kept(task)
        return payloads

    blocked: dict[str, set[tuple[str, int]]] = {name: set() for name in procedures}
    results: dict[str, Any] = {}
    asked: set[tuple[str, int]] = set()
    later = then({}) if then and ahead else {}
    while blocked:
        ended = len(results)
        for name in [name for name, tasks in blocked.items() if tasks <= known.keys()]:
            asked.clear()
            try:
                results[name] = procedures[name](ask)
                waited = blocked.pop(name)
                if run is not None and waited:  # else an earlier process finished it
                    run.log.write(f"{name} finished on {len(asked)} chunks")
            except _NotYet as pause:
                blocked[name] = {task.key() for task in pause.tasks}
                desk.want(pause.tasks)
        if then and ahead and ended < len(results):
            later = then(dict(results))
        if blocked and all(tasks - known.keys() for tasks in blocked.values()):
            desk.fill([procedures[name] for name in blocked], list(later.values()))
            desk.tell()
            desk.wait()
    desk.tell()
    return {name: results[name] for name in procedures}


@dataclass(frozen=True)
class Ahead:
    """Keeps so many `workers` busy with what procedures would ask for next.

    `guess` says what a task that is under way will probably answer. A task that nobody asks for
    in the end leaves no trace but the seconds that it took. All calls with one crew share what is
    still `away` when a call ends, what was done too `early`, and the errors of tasks nobody wants.
    """

    workers: int
    guess: Callable[[Any], bytes]
    away: set[tuple[str, int]] = field(default_factory=set)
    early: dict[tuple[str, int], tuple[bytes, float]] = field(default_factory=dict)
    errors: dict[tuple[str, int], Exception] = field(default_factory=dict)


def hand_out_early(
    procedures: Iterable[Procedure], crew: Executor[Any], *, run: Run | None, ahead: Ahead
) -> None:
    """Have workers begin with what procedures ask for first, unless it was done before.

    At once, procedure by procedure: to find what the next one asks for may take a while.
    """
    journal = _Journal(run, {})
    for procedure in procedures:
        try:
            procedure(journal.ask)
        except _NotYet as pause:
            first = {task.key(): task for task in pause.tasks if task.key() not in ahead.away}
            begun = dict(list(first.items())[: ahead.workers - len(ahead.away)])
            ahead.away.update(begun)
            crew.submit(*begun.values())
        except Exception:  # it will be raised where somebody waits for it
            continue


@dataclass(frozen=True)
class _Step:
    """What a procedure would ask for next that nobody does yet, nothing if it would end.

    So if the tasks that it `rests_on` answer as guessed, in as many asks as there are `guesses`.
    """

    tasks: list[Job]
    rests_on: list[Job]
    guesses: int


class _Desk:
    """Tasks that are away, those that are wanted, and those that were done too early."""

    def __init__(
        self,
        crew: Executor[Any],
        journal: _Journal,
        ticker: Watcher | None,
        ahead: Ahead | None,
    ) -> None:
        self.crew, self.journal, self.ticker = crew, journal, ticker
        self.ahead = ahead or Ahead(0, lambda _: b"")  # nobody is ever free to guess for
        self.wanted: set[tuple[str, int]] = set()
        self._untold: list[tuple[Job, bytes, float]] = []
        self._steps: dict[Procedure, _Step] = {}

    def want(self, tasks: Sequence[Job]) -> None:
        """Have tasks done, unless they are under way or were done early."""
        missing = []
        for task in tasks:
            key = task.key()
            if key in self.wanted:
                continue
            self.wanted.add(key)
            if self.ticker is not None:
                self.ticker.begun(task)
            if key in self.ahead.errors:
                raise self.ahead.errors[key]
            if key in self.ahead.early:
                self._keep(task, *self.ahead.early.pop(key))
            else:
                missing.append(task)
        self._hand_out(missing)

    def tell(self) -> None:
        """Say what has ended, which takes a while: when all that can be handed out is."""
        untold, self._untold = self._untold, []
        if self.ticker is not None:
            for each in untold:
                self.ticker.finished(*each)

    def wait(self) -> None:
        """Wait for one more task; an error counts once somebody wants its task."""
        ahead = self.ahead
        try:
            task, payload = self.crew.next()
        except (TrilemmaError, RuntimeError) as error:
            lost = self.crew.failed
            if lost is None:
                raise
            ahead.away.discard(lost.key())
            if lost.key() in self.wanted:
                raise
            ahead.errors[lost.key()] = error
            return
        ahead.away.discard(task.key())
        if task.key() in self.wanted:
            self._keep(task, payload, self.crew.spent)
        else:
            ahead.early[task.key()] = payload, self.crew.spent

    def fill(self, procedures: Sequence[Procedure], later: Sequence[Procedure]) -> None:
        """Hand out what the procedures would ask for, until all workers have something to do.

        What rests on the fewest guesses goes first, of equals what was named first.
        """
        every = [(each, 0) for each in procedures] + [(each, _LATER) for each in later]
        while (free := self.ahead.workers - len(self.ahead.away)) > 0:
            steps = [(self._step(procedure), more) for procedure, more in every]
            ranked = [(step.guesses + more, step.tasks) for step, more in steps if step.tasks]
            able = [each for each in ranked if each[0] <= _FAR]
            if not able:
                return
            _, tasks = min(able, key=itemgetter(0))
            self._hand_out(tasks[:free])

    def _step(self, procedure: Procedure) -> _Step:
        """A procedure's next step, found anew where an answer came that was guessed so far."""
        step = self._steps.get(procedure)
        if step is None or any(self._holds(task) for task in step.rests_on):
            step = self._found(procedure)
        elif step.tasks:
            left = [task for task in step.tasks if not self._there(task)]
            step = replace(step, tasks=left) if left else self._found(procedure)
        self._steps[procedure] = step
        return step

    def _found(self, procedure: Procedure) -> _Step:
        rests_on: list[Job] = []
        guesses = 0

        def ask(tasks: Sequence[Job]) -> list[bytes]:
            nonlocal guesses
            new = [task for task in tasks if not self._there(task)]
            if new:
                raise _NotYet(new)
            guessed = [task for task in tasks if not self._holds(task)]
            rests_on.extend(guessed)
            guesses += bool(guessed)
            return [self._answer(task) for task in tasks]

        try:
            procedure(ask)
        except _NotYet as pause:
            return _Step(pause.tasks, rests_on, guesses)
        except Exception:  # of a course that is not taken: if it is, it is raised there
            pass
        return _Step([], rests_on, guesses)

    def _there(self, task: Job) -> bool:
        key = task.key()
        return key in self.ahead.away or key in self.ahead.errors or self._holds(task)

    def _holds(self, task: Job) -> bool:
        return task.key() in self.ahead.early or self.journal.holds(task)

    def _answer(self, task: Job) -> bytes:
        key = task.key()
        if key in self.journal.known:
            return self.journal.known[key]
        return self.ahead.early[key][0] if key in self.ahead.early else self.ahead.guess(task)

    def _hand_out(self, tasks: Sequence[Job]) -> None:
        new = {task.key(): task for task in tasks if task.key() not in self.ahead.away}
        self.ahead.away.update(new)
        self.crew.submit(*new.values())

    def _keep(self, task: Job, payload: bytes, seconds: float) -> None:
        self.journal.keep(task, payload)
        self._untold.append((task, payload, seconds))


class _Journal:
    """What is done: in memory, and in the run's journal where there is one."""

    def __init__(self, run: Run | None, known: dict[tuple[str, int], bytes]) -> None:
        self.run, self.known, self.read = run, known, set[str]()

    def holds(self, task: Job) -> bool:
        stage, _ = task.key()
        if self.run is not None and stage not in self.read:
            self.read.add(stage)
            for chunk, payload in self.run.committed(stage).items():
                self.known.setdefault((stage, chunk), payload)
        return task.key() in self.known

    def ask(self, tasks: Sequence[Job]) -> list[bytes]:
        """What is done; where something is not, whoever asks is left there."""
        missing = [task for task in tasks if not self.holds(task)]
        if missing:
            raise _NotYet(missing)
        return [self.known[task.key()] for task in tasks]

    def keep(self, task: Job, payload: bytes) -> None:
        if self.run is not None:
            self.run.commit(*task.key(), payload)
        self.known[task.key()] = payload
