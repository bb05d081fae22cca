"""Several procedures at once: each is a generator that yields jobs and is sent their results.

    (attacked, trained) = yield [AttackJob(...), TrainJob(...)]

What a run's journal holds comes from there, the rest from workers; what two procedures want is
done once. A procedure draws nothing at random and asks no clock, so that a run that was killed is
resumed by the very steps by which an undisturbed one goes on: its procedures are played again, and
the journal answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from trilemma.execution.journal import Run
    from trilemma.execution.pool import Executor, Job, Spent

__all__ = ["Procedure", "Scheduler", "Watcher", "together"]

_LONGEST_S: Final = 1e6  # that a process can wait at all

Result = TypeVar("Result")
Procedure = Generator[Sequence[Any], list[Any], Result]
"""Yields jobs, is sent their results in the same order, and returns what it found."""


def together(procedures: Sequence[Procedure[Result]]) -> Procedure[list[Result]]:
    """Several procedures as one: what each of them wants next is wanted at once."""
    returned: dict[int, Result] = {}
    results: dict[int, list[Any] | None] = dict.fromkeys(range(len(procedures)))
    while results:
        wanted: dict[int, Sequence[Any]] = {}
        for place, own in results.items():
            try:
                procedure = procedures[place]
                wanted[place] = next(procedure) if own is None else procedure.send(own)
            except StopIteration as end:
                returned[place] = end.value
        found = iter((yield [job for jobs in wanted.values() for job in jobs]) if wanted else ())
        results = {place: [next(found) for _ in jobs] for place, jobs in wanted.items()}
    return [returned[place] for place in range(len(procedures))]


class Watcher(Protocol):
    """Sees jobs begin and end, to show progress.

    A job is announced once, with the first procedure that wants it; `kept` are those that were
    done before.
    """

    def kept(self, procedure: str, job: Job) -> None: ...

    def begun(self, procedure: str, job: Job) -> None: ...

    def finished(self, job: Job, result: Any, spent: Spent) -> None: ...

    def ended(self, procedure: str) -> None: ...


@dataclass
class _Course:
    """A procedure under way: the jobs that it waits for, and those of them that are not done."""

    procedure: Procedure[Any]
    jobs: Sequence[Job] | None = None
    missing: set[str] = field(default_factory=set)
    asked: dict[str, Job] = field(default_factory=dict)
    waited: bool = False


class Scheduler:
    """Has the jobs of procedures done by `pool`, and remembers their results.

    `decode` makes a result of a payload. Payloads are kept in `run`, if there is one, and what it
    holds is not done again. An error of a job is raised by `run_all`, whichever procedure wanted
    it.
    """

    def __init__(
        self,
        pool: Executor[Any],
        decode: Callable[[bytes], Any],
        *,
        run: Run | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._pool, self._decode, self._run, self._watcher = pool, decode, run, watcher
        self._results: dict[str, Any] = {}
        self._submitted: set[str] = set()
        self.unfinished: dict[str, int] = {}
        self.worked = False  # whether any job was done that no earlier process had done

    def run_all(
        self, procedures: Mapping[str, Procedure[Any]], *, until: float | None = None
    ) -> dict[str, Any]:
        """What each procedure returns, by name; their jobs are done side by side.

        At the time `until`, of the monotonic clock, those that still wait for a job are given up:
        what they return is left out, and `unfinished` has the games that were played for them.
        What was played before is kept, and costs no time.
        """
        courses = {name: _Course(procedure) for name, procedure in procedures.items()}
        returned: dict[str, Any] = {}
        for name in list(courses):
            self._advance(name, courses, returned)
        while courses:
            try:
                job, payload = self._next(until)
            except TimeoutError:
                break
            self.worked = True
            if self._run is not None:
                self._run.commit(job.key, payload)
            self._results[job.key] = result = self._decode(payload)
            for name in [name for name, course in courses.items() if job.key in course.missing]:
                courses[name].missing.discard(job.key)
                if not courses[name].missing:
                    self._advance(name, courses, returned)
            if self._watcher is not None:  # once workers have what comes next
                self._watcher.finished(job, result, self._pool.spent)
        for name, course in courses.items():
            course.procedure.close()
            done = [job for key, job in course.asked.items() if key in self._results]
            self.unfinished[name] = sum(getattr(job, "count", 0) for job in done)
        return {name: returned[name] for name in procedures if name in returned}

    def _next(self, until: float | None) -> tuple[Job, bytes]:
        if until is None:
            return self._pool.next()
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        return self._pool.next(within=min(left, _LONGEST_S))

    def _advance(self, name: str, courses: dict[str, _Course], returned: dict[str, Any]) -> None:
        """Send a procedure its results until it wants what is not done, or returns."""
        course = courses[name]
        while True:
            try:
                if course.jobs is None:
                    course.jobs = next(course.procedure)
                else:
                    results = [self._results[job.key] for job in course.jobs]
                    course.jobs = course.procedure.send(results)
            except StopIteration as end:
                returned[name] = end.value
                del courses[name]
                if self._run is not None and course.waited:  # else an earlier process finished it
                    self._run.log.write(f"{name} finished on {len(course.asked)} chunks")
                if self._watcher is not None:
                    self._watcher.ended(name)
                return
            course.asked.update((job.key, job) for job in course.jobs)
            course.missing = {job.key for job in course.jobs if not self._holds(name, job)}
            if course.missing:
                course.waited = True
                self._submit(name, [job for job in course.jobs if job.key in course.missing])
                return

    def _holds(self, procedure: str, job: Job) -> bool:
        if job.key in self._results:
            return True
        payload = None if self._run is None else self._run.committed(job.key)
        if payload is None:
            return False
        self._results[job.key] = self._decode(payload)
        if self._watcher is not None:
            self._watcher.kept(procedure, job)
        return True

    def _submit(self, procedure: str, jobs: Sequence[Job]) -> None:
        """Have jobs done that nobody has asked for yet."""
        new = {job.key: job for job in jobs if job.key not in self._submitted}
        self._submitted.update(new)
        if self._watcher is not None:
            for job in new.values():
                self._watcher.begun(procedure, job)
        self._pool.submit(*new.values())
