"""What a job is, and what an executor owes to those who hand jobs to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from trilemma.errors import TrilemmaError

__all__ = ["Executor", "Job", "Joins", "Joint", "Spent", "WorkerDied"]


class Job(Protocol):
    """Work to be done once: its payload depends on the job and the run's settings alone."""

    @property
    def key(self) -> str:
        """Under which a run keeps the payload: equal for equal jobs alone."""
        ...

    @property
    def label(self) -> str:
        """The job in a few words, for progress, the log and errors; nothing reads it."""
        ...


class Spent(NamedTuple):
    """Seconds that a job has taken of one process: by the clock, and of its CPU."""

    wall: float
    cpu: float


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
    the same task is `WorkerDied`. An error of the task itself is raised by `next`. `spent` is what
    the task which `next` gave last has taken. To be used in a `with` block, at whose end no worker
    is left.
    """

    spent: Spent

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
