"""Processes of this machine: results come back as they finish, whatever their order.

Each worker has one torch thread and is fed through its own pipe. When the parent dies, even by
kill -9, the pipe closes and the worker ends by itself; a process pool of the standard library
would leave it waiting for ever.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, Self, TypeVar

from trilemma.errors import InvalidInput
from trilemma.execution.pool.base import Job, Spent, WorkerDied
from trilemma.execution.pool.task_queue import Try, Waiting
from trilemma.execution.pool.worker import (
    Failure,
    Stopwatch,
    Worker,
    done,
    one_thread,
    payloads_of,
    pickled,
)
from trilemma.execution.pool.worker_processes import end, start
from trilemma.quantities import counted

__all__ = ["WorkerPool"]

Kind = TypeVar("Kind", bound=Job)


class WorkerPool(Generic[Kind]):
    """Workers that stay; `make_work` runs once in each and builds what all tasks share.

    A process starts when there is a task that no idle one can take. Where processes are forked,
    the modules of `make_work.preload` (or the one of its class) are imported once for all. With
    one worker the tasks run here, one at a time, when their payload is asked for. Where the
    `device` is "cuda" and the machine has several, each process sees one of them, the one that
    fewest others have.
    """

    def __init__(
        self,
        make_work: Callable[[], Callable[[Kind], bytes]],
        *,
        workers: int,
        device: str = "cpu",
    ) -> None:
        counted("workers", workers)
        self._make_work, self._workers, self._device = make_work, workers, device
        self._waiting: Waiting[Kind] = Waiting(make_work)
        self._finished: deque[tuple[Kind, bytes, Spent]] = deque()
        self._pending: dict[Connection, Try[Kind]] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        self._gpus: dict[Connection, str | None] = {}
        self._work: Callable[[Kind], bytes] | None = None
        self._pickled = b""
        self._started = False  # whether a process has ever got as far as to wait for tasks
        self.spent = Spent(0.0, 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._processes.items())

    def submit(self, *tasks: Kind) -> None:
        """Queue tasks; they start at once where workers are free."""
        for task in tasks:
            self._waiting.append(task)
        if self._workers > 1:
            self._hand_out()

    def next(self, within: float | None = None) -> tuple[Kind, bytes]:
        """The next finished task and its payload; waits for it.

        With several workers, `TimeoutError` after `within` seconds.
        """
        end = None if within is None else time.monotonic() + within
        while not self._finished:
            left = None if end is None else max(0.0, end - time.monotonic())
            if self._workers == 1:
                self._do_here()
            elif not self._receive(left):
                raise TimeoutError(f"no task was finished within {within} seconds")
        task, payload, self.spent = self._finished.popleft()
        return task, payload

    def _do_here(self) -> None:
        """The next tasks, in this process."""
        tried = self._waiting.take()
        with one_thread():
            try:
                self._work = self._work or self._make_work()
                watch = Stopwatch()
                payloads = done(self._work, tried.tasks)
            except Exception:
                if len(tried.tasks) == 1:
                    raise
                self._waiting.put_back(tried.apart())
                return
        self._keep(tried, payloads, watch.each_of(len(payloads)))

    def _receive(self, within: float | None) -> bool:
        """What the next worker has to say; whether one had in time."""
        found = wait(list(self._pending), within)
        if not found:
            return False
        ready = found[0]
        assert isinstance(ready, Connection)
        tried = self._pending.pop(ready)
        try:
            received = ready.recv()
        except (EOFError, OSError):  # it died before its answer, or in the midst of it
            self._remove(ready, tried)
            self._hand_out()
            return True
        if received is None:
            self._started, self._pending[ready] = True, tried
            return True
        answer, spent = received
        if isinstance(answer, Failure) and len(tried.tasks) > 1:
            self._waiting.put_back(tried.apart())
            self._hand_out()
            return True
        self._hand_out()
        self._keep(tried, payloads_of(answer, tried.tasks), spent)
        return True

    def _keep(self, tried: Try[Kind], payloads: list[bytes], spent: Spent) -> None:
        self._finished += [(*made, spent) for made in zip(tried.tasks, payloads, strict=True)]

    def drop(self) -> None:
        """End what is being done and forget it; the next task is for a fresh process."""
        end([(pipe, self._processes.pop(pipe)) for pipe in self._pending])
        for pipe in self._pending:
            del self._gpus[pipe]
        self._pending.clear()
        self._waiting.clear()
        self._finished.clear()

    def _remove(self, pipe: Connection, tried: Try[Kind]) -> None:
        """Let go of a worker that died; its tasks come first, for new ones."""
        process = self._processes.pop(pipe)
        del self._gpus[pipe]
        pipe.close()
        process.join()
        if process.exitcode == 1 and not self._started:
            raise InvalidInput(
                "worker processes import the program's main module, and an error ended them "
                "there; keep the program in a file, put what it does under "
                "`if __name__ == '__main__':`, or use one worker."
            ) from None
        self._waiting.put_back(tried.again(f"exit code {process.exitcode}").apart())

    def _hand_out(self) -> None:
        while self._waiting:
            idle = [pipe for pipe in self._processes if pipe not in self._pending]
            if not idle and len(self._processes) >= self._workers:
                return
            pipe = idle[0] if idle else self._start()
            tried = self._pending[pipe] = self._waiting.take()
            # A worker that has just died is found when its answer is read.
            with suppress(BrokenPipeError):
                pipe.send(tried.tasks)

    def _start(self) -> Connection:
        self._pickled = self._pickled or pickled(self._make_work)
        taken = list(self._gpus.values())
        gpu = min(_gpus(), key=taken.count) if self._device == "cuda" else None
        # A fork has the environment in which its server was started, perhaps long ago.
        environment = dict(os.environ) | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
        preload = getattr(self._make_work, "preload", (type(self._make_work).__module__,))
        try:
            ours, process = start(_worker, preload=preload, fork=self._device == "cpu")
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or "the process that forks them has ended"
            raise WorkerDied(
                f"worker process {len(self._processes) + 1} cannot be started "
                f"({reason}); use fewer workers."
            ) from error
        self._processes[ours], self._gpus[ours] = process, gpu
        # Not among the arguments: one that dies before it read them all would be waited for.
        with suppress(BrokenPipeError):
            ours.send(environment)
            ours.send_bytes(self._pickled)
        return ours


def _gpus() -> list[str]:
    """The GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    import torch  # heavy: importing this file must stay cheap

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    every = named.split(",") if named else map(str, range(torch.cuda.device_count()))
    return list(every)[: torch.cuda.device_count()]


def _worker(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server may be the program's own
    if "numpy" in sys.modules:  # or all forks would draw alike where users name no seed
        sys.modules["numpy"].random.seed()
    with suppress(EOFError, OSError):  # the parent has ended
        os.environ.clear()
        os.environ.update(pipe.recv())  # the GPU is read when CUDA is first used
        worker = Worker(pipe.recv_bytes())
        pipe.send(None)
        while True:
            pipe.send(worker.do(pipe.recv()))
