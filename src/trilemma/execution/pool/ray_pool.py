"""Workers on a Ray cluster: the same tasks, the same payloads, on as many machines as it has.

What the tasks share goes to Ray's object store once and is unpickled once in each worker. This
process alone has the journal and its keys. A worker or node that dies is replaced by us, not by
Ray, so that deaths are counted as on one machine.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import math
import os
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from trilemma.errors import InvalidInput
from trilemma.execution.pool.base import Job, Spent, WorkerDied
from trilemma.execution.pool.task_queue import Try, Waiting, name_of
from trilemma.execution.pool.worker import Failure, Worker, payloads_of, pickled
from trilemma.execution.run_log import versions
from trilemma.quantities import counted

__all__ = ["Cluster", "join_cluster", "worker_needs"]

_PATIENCE_S: Final = 5.0  # for a server to be there; Ray itself waits for minutes
_STILLBORN: Final = 3
_NUMBERS: Final = itertools.count(1)  # a name is given once in a process
Kind = TypeVar("Kind", bound=Job)


class Cluster(Generic[Kind]):
    """Workers on the cluster at `address`; `make_work` runs once in each.

    A worker is given a CPU, or a share of a GPU where the `device` is one. It has no task before
    the cluster has a place for it, so that tasks never wait for a worker that cannot start. A
    connection to Ray that is there already is used, and left open.
    """

    def __init__(
        self,
        make_work: Callable[[], Callable[[Kind], bytes]],
        *,
        address: str,
        workers: int,
        device: str = "cpu",
    ) -> None:
        counted("workers", workers)
        self._make_work, self._address = make_work, address
        self._workers, self._device = workers, device
        self._waiting: Waiting[Kind] = Waiting(make_work)
        self._finished: deque[tuple[Kind, bytes, Spent]] = deque()
        self._pending: dict[Any, tuple[Any, Try[Kind] | None]] = {}  # None: not ready yet
        self._idle: list[Any] = []
        self._stillborn = 0
        self._ray: Any = None
        self.spent = Spent(0.0, 0.0)

    def __enter__(self) -> Self:
        ray = self._ray = _imported()
        # Ray's way to pickle sends what a program's main module or a notebook defines, too.
        needed = pickled(self._make_work, ray.cloudpickle.dumps)
        with ExitStack() as undo:
            # Ray tells of dead workers on stdout, where a command's result goes.
            undo.enter_context(redirect_stdout(sys.stderr))
            if not ray.is_initialized():
                join_cluster(ray, self._address)
                undo.callback(ray.shutdown)
            needs = worker_needs(ray.cluster_resources(), self._workers, self._device)
            self._kind = ray.remote(**needs, max_restarts=0, max_task_retries=0)(Worker)
            self._needed = ray.put(needed)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._undo:
            for worker in (*self._idle, *(item for item, _ in self._pending.values())):
                self._ray.kill(worker)

    def submit(self, *tasks: Kind) -> None:
        """Queue tasks; they start at once where workers are free."""
        for task in tasks:
            self._waiting.append(task)
        self._hand_out()

    def next(self, within: float | None = None) -> tuple[Kind, bytes]:
        """The next finished task and its payload; `TimeoutError` after `within` seconds."""
        end = None if within is None else time.monotonic() + within
        while not self._finished:
            left = None if end is None else max(0.0, end - time.monotonic())
            if left is not None and not self._ray.wait(list(self._pending), timeout=left)[0]:
                raise TimeoutError(f"no task was finished within {within} seconds")
            self._receive()
        task, payload, self.spent = self._finished.popleft()
        return task, payload

    def _receive(self) -> None:
        """What the next worker has to say."""
        errors = self._ray.exceptions
        (ready,), _ = self._ray.wait(list(self._pending))
        worker, tried = self._pending.pop(ready)
        try:
            found = self._ray.get(ready)
        except errors.RayTaskError as error:  # `Worker` itself raises nothing
            if tried is not None and len(tried.tasks) > 1:
                self._waiting.put_back(tried.apart()[1:])
                self._hand_out()
            raise _unusable(error) from error
        except errors.RayError as error:
            self._remove(worker, tried, error)
            self._hand_out()
            return
        if tried is None:
            _same(found)
            self._stillborn = 0
        self._idle.append(worker)
        if tried is not None and isinstance(found[0], Failure) and len(tried.tasks) > 1:
            self._waiting.put_back(tried.apart())
            tried = None
        self._hand_out()
        if tried is not None:
            answer, spent = found
            payloads = payloads_of(answer, tried.tasks)
            self._finished += [(*made, spent) for made in zip(tried.tasks, payloads, strict=True)]

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            worker, tried = self._idle.pop(), self._waiting.take()
            named = worker.do.options(name=name_of(tried.tasks))
            self._pending[named.remote(tried.tasks)] = worker, tried
        starting = sum(tried is None for _, tried in self._pending.values())
        free = self._workers - len(self._pending) - len(self._idle)
        for _ in range(min(free, len(self._waiting) - starting)):
            name = f"worker {next(_NUMBERS)} of trilemma's process {os.getpid()}"
            worker = self._kind.options(name=name).remote(self._needed, str(Path.cwd()))
            self._pending[worker.versions.options(name=f"start of {name}").remote()] = worker, None

    def _remove(self, worker: Any, tried: Try[Kind] | None, error: Exception) -> None:
        """Let go of a worker that died; its tasks come first, for others."""
        self._ray.kill(worker)  # it may be out of reach only
        if getattr(error, "actor_init_failed", False):
            raise _unusable(error) from error
        if tried is not None:
            self._waiting.put_back(tried.again(type(error).__name__).apart())
            return
        self._stillborn += 1
        if self._stillborn == _STILLBORN:
            raise WorkerDied(
                f"{_STILLBORN} workers on the Ray cluster died before their first task, the last "
                f"with {type(error).__name__}; what was finished is kept: look at the cluster's "
                f"logs, and run the same command again."
            ) from error


def _imported() -> Any:
    try:
        return importlib.import_module("ray")  # heavy, and an extra
    except ImportError as error:
        raise InvalidInput(
            f"a Ray cluster needs Ray, which cannot be imported ({error}); install "
            f"'trilemma[ray]', or leave out the address."
        ) from None


def join_cluster(ray: Any, address: str) -> None:
    """Joins the cluster at an address, or says in one sentence why not."""
    try:
        _reach(address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # Ray's, about its own plans
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        said = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        reason = said.splitlines()[0].rstrip(".")
        raise InvalidInput(
            f"no Ray cluster can be joined at {address!r} ({reason}); give the address that "
            f"`ray start` printed, such as 10.0.0.1:6379, or auto on a machine of the cluster."
        ) from error


def _reach(address: str) -> None:
    """Fail soon where nothing listens; Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdecimal()):
        return  # auto, or what Ray itself refuses at once
    socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()


def worker_needs(cluster: Mapping[str, float], workers: int, device: str) -> dict[str, float]:
    """What one of so many workers takes of the cluster."""
    if not device.startswith("cuda"):
        if cluster.get("CPU", 0) < 1:
            raise InvalidInput("the Ray cluster has no CPU to work on; start nodes with some.")
        return {"num_cpus": 1}
    gpus = int(cluster.get("GPU", 0))
    if gpus < 1:
        raise InvalidInput(
            f"device {device!r} was asked for, but the Ray cluster has no GPU; use 'cpu', or "
            f"start nodes with GPUs."
        )
    return {"num_gpus": math.floor(1e4 / math.ceil(workers / gpus)) / 1e4}  # Ray counts in 1e-4


def _same(there: str) -> None:
    """Refuse a node with other versions, on which numbers might differ."""
    if there != versions():
        raise InvalidInput(
            f"a node of the Ray cluster has {there}, and this machine {versions()}; install the "
            f"same on all, so that no number depends on where it is made."
        )


def _unusable(error: Exception) -> InvalidInput:
    """A worker that Ray could not even make, or hand a task to, most often for lack of modules."""
    *_, reason = str(error).strip().splitlines() or [type(error).__name__]
    return InvalidInput(
        f"a node of the Ray cluster cannot do this work ({reason.strip()}); install {versions()} "
        f"there, and the scenario's own modules."
    )
