"""Who does the tasks: an interface of two calls, and one file for each place where work can run.

Whatever the executor, a task's payload is the same, so that a run may change it when it resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trilemma.execution.pool.base import Executor, Job, Spent, WorkerDied
from trilemma.execution.pool.process_pool import WorkerPool
from trilemma.execution.pool.ray_pool import Cluster
from trilemma.execution.pool.worker import one_thread
from trilemma.execution.pool.worker_memory import keep_memory

__all__ = [
    "Executor",
    "Job",
    "Spent",
    "WorkerDied",
    "WorkerPool",
    "executor",
    "keep_memory",
    "one_thread",
]  # fmt: skip

Kind = TypeVar("Kind", bound=Job)


def executor(
    make_work: Callable[[], Callable[[Kind], bytes]],
    *,
    workers: int,
    ray: str | None = None,
    device: str = "cpu",
) -> Executor[Kind]:
    """Workers on this machine, or on the Ray cluster at an address; tasks run on the `device`."""
    if ray is None:
        return WorkerPool(make_work, workers=workers, device=device)
    return Cluster(make_work, address=ray, workers=workers, device=device)
