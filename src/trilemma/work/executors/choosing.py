"""Where the work of a run is done; the numbers do not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trilemma.work.executors.base import Executor, Job
from trilemma.work.executors.cluster import Cluster
from trilemma.work.executors.local import Crew

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
        return Crew(make_work, workers=workers, device=device)
    return Cluster(make_work, address=ray, workers=workers, device=device)
