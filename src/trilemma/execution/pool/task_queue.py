"""Tasks that no worker has yet, and which of them one worker takes at once.

A GPU does many small tasks in the time of one: those that can share a call go to one worker, and
what comes back is still one payload a task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Self, TypeVar

from trilemma.execution.pool.base import Job, Joins, WorkerDied

__all__ = ["Try", "Waiting", "name_of"]

_TRIES: Final = 3
Kind = TypeVar("Kind", bound=Job)


@dataclass(frozen=True)
class Try(Generic[Kind]):
    """Tasks for one call, and how many workers have died on them."""

    tasks: tuple[Kind, ...]
    deaths: int = 0
    alone: bool = False

    def again(self, last: str) -> Self:
        """The same after one more death, of which `last` tells; the third is too many."""
        if self.deaths + 1 == _TRIES:
            raise WorkerDied(
                f"{_TRIES} worker processes died on {name_of(self.tasks)}, the last with {last}, "
                f"perhaps for lack of memory; what was finished is kept: run the same command "
                f"again, with fewer workers if it happens again."
            )
        return replace(self, deaths=self.deaths + 1)

    def apart(self) -> list[Self]:
        """Each task by itself, so that it is known on which one a worker fails."""
        return [replace(self, tasks=(task,), alone=True) for task in self.tasks]


class Waiting(Generic[Kind]):
    """Tasks in the order in which they came, those that were tried before ahead of them.

    `maker` is what makes the workers' function; if it has a `joins`, that says whether a task can
    be done in one call with some others.
    """

    def __init__(self, maker: object) -> None:
        self._joins: Joins[Kind] | None = getattr(maker, "joins", None)
        self._tries: deque[Try[Kind]] = deque()

    def __len__(self) -> int:
        return len(self._tries)

    def append(self, task: Kind) -> None:
        self._tries.append(Try((task,)))

    def put_back(self, tries: Sequence[Try[Kind]]) -> None:
        """They come next, in their order."""
        self._tries.extendleft(reversed(tries))

    def clear(self) -> None:
        self._tries.clear()

    def take(self) -> Try[Kind]:
        """The next task, and all others that join it.

        >>> from types import SimpleNamespace
        >>> maker = SimpleNamespace(joins=lambda tasks, other: other % 2 == tasks[0] % 2)
        >>> waiting = Waiting(maker)
        >>> for task in (0, 1, 2, 3, 4):
        ...     waiting.append(task)
        >>> waiting.take().tasks, waiting.take().tasks
        ((0, 2, 4), (1, 3))
        """
        first = self._tries.popleft()
        if self._joins is None or first.alone:
            return first
        tasks = first.tasks
        for item in list(self._tries):
            if not item.alone and self._joins(tasks, item.tasks[0]):
                self._tries.remove(item)
                tasks += item.tasks
        return Try(tasks)


def name_of(tasks: Sequence[Any]) -> str:
    """Tasks in words."""
    more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
    return f"{tasks[0].label}{more}"
