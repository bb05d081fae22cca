"""What a task is, and what an executor owes to those who hand tasks to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from trilemma.errors import TrilemmaError

__all__ = ["Executor", "Job", "Joins", "Joint", "WorkerDied"]


class Job(Protocol):
    """Work to be done once: its payload depends on the task and the run's settings alone."""

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        ...


class WorkerDied(TrilemmaError):
    """Workers ended again and again without an answer, most often for lack of memory."""


Kind = TypeVar("Kind", bound=Job)

Joins = Callable[[Sequence[Kind], Kind], bool]
"""Whether a worker can do a task in one call with some others."""


@dataclass(frozen=True)
class Joint(Generic[Kind]):
    """A worker's function that can also do several tasks in one call, a payload for each."""

    alone: Callable[[Kind], bytes]
    together: Callable[[Sequence[Kind]], list[bytes]]

    def __call__(self, task: Kind) -> bytes:
        return self.alone(task)


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

    def submit(self, *tasks: Kind) -> None:
        """Queue tasks; they start at once where workers are free.

        Where what makes the workers' function has a `joins`, tasks that it lets share a call are
        done in one.
        """
        ...

    def next(self) -> tuple[Kind, bytes]:
        """The next finished task and its payload; waits for it."""
        ...
