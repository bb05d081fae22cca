"""What a task is, and what an executor owes to those who hand tasks to it."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from trilemma.errors import TrilemmaError

__all__ = ["Executor", "Job", "WorkerDied"]


class Job(Protocol):
    """Work to be done once: its payload depends on the task and the run's settings alone."""

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        ...


class WorkerDied(TrilemmaError):
    """Workers ended again and again without an answer, most often for lack of memory."""


Kind = TypeVar("Kind", bound=Job)


class Executor(Protocol[Kind]):
    """Tasks go in at any time; payloads come out as they are finished, whatever their order.

    A worker that dies is replaced and its task done again, twice; the third death of a worker on
    the same task is `WorkerDied`. An error of the task itself is raised by `next`. `spent` are the
    seconds that the task which `next` gave last has taken, `failed` the task whose error it raised
    last, None where it was no task's. To be used in a `with` block, at whose end no worker is
    left.
    """

    spent: float
    failed: Job | None

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def submit(self, task: Kind) -> None:
        """Queue a task; it starts at once where a worker is free."""
        ...

    def next(self) -> tuple[Kind, bytes]:
        """The next finished task and its payload; waits for it."""
        ...
