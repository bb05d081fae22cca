"""Where the work of a run is done; the numbers do not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trilemma.execution.pool.base import Executor, Job
from trilemma.execution.pool.process_pool import WorkerPool
from trilemma.execution.pool.ray_pool import Cluster

__all__ = ["executor"]

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
