"""Several procedures at once, by replay: each asks for measurements, none waits for another.

A procedure is a plain function of `ask`. Where it asks for what is not measured yet, it is left
there; the measurements are made, journaled, and the procedure runs again from its start, which
costs milliseconds, because everything it asked for before is at hand. A run that was killed is
therefore resumed by the very steps by which an undisturbed one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from trilemma.work.executors import Executor, Job
    from trilemma.work.journal import Run

__all__ = ["Ask", "Procedure", "Watcher", "settle"]


class Ask(Protocol):
    """The payloads of some tasks, in their order; a procedure knows its own kinds of them."""

    def __call__(self, tasks: Sequence[Any]) -> list[bytes]: ...


Procedure = Callable[[Ask], Any]


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
) -> dict[str, Any]:
    """The result of each procedure, by name; tasks of all of them run side by side.

    `known` holds payloads of earlier calls and takes those of this one.
    """
    known = {} if known is None else known
    journal = _Journal(run, known)

    def ask(tasks: Sequence[Job]) -> list[bytes]:
        missing = [task for task in tasks if not journal.holds(task)]
        if missing:
            raise _NotYet(missing)
        for task in tasks:
            asked.add(task.key())
            if ticker is not None and task.key() not in started:
                ticker.kept(task)
        return [known[task.key()] for task in tasks]

    blocked: dict[str, set[tuple[str, int]]] = {name: set() for name in procedures}
    results: dict[str, Any] = {}
    started: set[tuple[str, int]] = set()
    asked: set[tuple[str, int]] = set()
    while blocked:
        for name in [name for name, tasks in blocked.items() if tasks <= known.keys()]:
            asked.clear()
            try:
                results[name] = procedures[name](ask)
                waited = blocked.pop(name)
                if run is not None and waited:  # else an earlier process finished it
                    run.log.write(f"{name} finished on {len(asked)} chunks")
            except _NotYet as pause:
                blocked[name] = {task.key() for task in pause.tasks}
                for task in pause.tasks:
                    if task.key() not in started:
                        started.add(task.key())
                        crew.submit(task)
                        if ticker is not None:
                            ticker.begun(task)
        if blocked and all(tasks - known.keys() for tasks in blocked.values()):
            task, payload = crew.next()
            journal.keep(task, payload)
            if ticker is not None:
                ticker.finished(task, payload, crew.spent)
    return {name: results[name] for name in procedures}


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

    def keep(self, task: Job, payload: bytes) -> None:
        if self.run is not None:
            self.run.commit(*task.key(), payload)
        self.known[task.key()] = payload
