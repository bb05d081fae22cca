"""Processes of this machine: results come back as they finish, whatever their order.

Each worker is a fresh interpreter (spawn) with one torch thread, fed through its own pipe. When
the parent dies, even by kill -9, the pipe closes and the worker ends by itself; a process pool of
the standard library would leave it waiting for ever. Interpreters can be started before there is
anything to do, as their imports take seconds.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, Generic, Self, TypeVar

from trilemma.quantities import counted
from trilemma.work.executors.base import Job, WorkerDied
from trilemma.work.executors.hands import Hands, Try, one_thread, payload_of, pickled

__all__ = ["Crew", "prepared"]

Kind = TypeVar("Kind", bound=Job)
_PREPARED: Final[deque[tuple[Connection, BaseProcess]]] = deque()


@contextmanager
def prepared(workers: int, *modules: str) -> Iterator[None]:
    """Starts processes that the next `Crew` will find; they import `modules` in the meantime."""
    with suppress(OSError):  # the crew will try again, and tell
        for _ in range(workers):
            _PREPARED.append(_started(modules))
    try:
        yield
    finally:
        while _PREPARED:
            _end(*_PREPARED.popleft())


class Crew(Generic[Kind]):
    """Workers that stay; `make_work` runs once in each and builds what all tasks share.

    A process starts when there is a task that no idle one can take, unless it was `prepared`.
    With one worker the tasks run here, one at a time, when their payload is asked for. Where the
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
        self._waiting: deque[Try[Kind]] = deque()
        self._pending: dict[Connection, Try[Kind]] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        self._gpus: dict[Connection, str | None] = {}
        self._work: Callable[[Kind], bytes] | None = None
        self._pickled = b""
        self.spent = 0.0
        self.failed: Job | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, process in self._processes.items():
            _end(pipe, process)

    def submit(self, task: Kind) -> None:
        """Queue a task; it starts at once where a worker is free."""
        self._waiting.append(Try(task))
        if self._workers > 1:
            self._hand_out()

    def next(self, within: float | None = None) -> tuple[Kind, bytes]:
        """The next finished task and its payload; waits for it.

        With several workers, `TimeoutError` after `within` seconds.
        """
        if self._workers == 1:
            task = self.failed = self._waiting.popleft().task
            with one_thread():
                self._work = self._work or self._make_work()
                start = time.monotonic()
                payload = self._work(task)
            self.spent = time.monotonic() - start
            return task, payload
        while True:
            found = wait(list(self._pending), within)
            if not found:
                raise TimeoutError(f"no task was finished within {within} seconds")
            ready = found[0]
            assert isinstance(ready, Connection)
            tried = self._pending.pop(ready)
            try:
                answer, self.spent = ready.recv()
            except (EOFError, OSError):  # it died before its answer, or in the midst of it
                self.failed = tried.task
                self._bury(ready, tried)
                self.failed = None
                self._hand_out()
                continue
            self.failed = None
            self._hand_out()
            self.failed = tried.task
            return tried.task, payload_of(answer, tried.task)

    def drop(self) -> None:
        """End what is being done and forget it; the next task is for a fresh process."""
        for pipe in self._pending:
            _end(pipe, self._processes.pop(pipe))
            del self._gpus[pipe]
        self._pending.clear()
        self._waiting.clear()

    def _bury(self, pipe: Connection, tried: Try[Kind]) -> None:
        """Let go of a worker that died; its task comes first, for a new one."""
        process = self._processes.pop(pipe)
        del self._gpus[pipe]
        pipe.close()
        process.join()
        self._waiting.appendleft(tried.again(f"exit code {process.exitcode}"))

    def _hand_out(self) -> None:
        while self._waiting:
            idle = [pipe for pipe in self._processes if pipe not in self._pending]
            if not idle and len(self._processes) >= self._workers:
                return
            pipe = idle[0] if idle else self._start()
            tried = self._pending[pipe] = self._waiting.popleft()
            # A worker that has just died is found when its answer is read.
            with suppress(BrokenPipeError):
                pipe.send(tried.task)

    def _start(self) -> Connection:
        self._pickled = self._pickled or pickled(self._make_work)
        taken = list(self._gpus.values())
        gpu = min(_gpus(), key=taken.count) if self._device == "cuda" else None
        try:
            ours, process = _PREPARED.popleft() if _PREPARED else _started()
        except OSError as error:
            raise WorkerDied(
                f"worker process {len(self._processes) + 1} cannot be started "
                f"({error.strerror}); use fewer workers."
            ) from error
        self._processes[ours], self._gpus[ours] = process, gpu
        # Not among the arguments: one that dies before it read them all would be waited for.
        with suppress(BrokenPipeError):
            ours.send(gpu)
            ours.send_bytes(self._pickled)
        return ours


def _started(modules: Sequence[str] = ()) -> tuple[Connection, BaseProcess]:
    """A fresh process and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_worker, args=(theirs, modules), daemon=True)
    with _deaf_to_ctrl_c():
        process.start()
    theirs.close()
    return ours, process


def _end(pipe: Connection, process: BaseProcess) -> None:
    pipe.close()
    process.terminate()
    process.join()


def _gpus() -> list[str]:
    """The GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    import torch  # heavy: importing this file must stay cheap

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    every = named.split(",") if named else map(str, range(torch.cuda.device_count()))
    return list(every)[: torch.cuda.device_count()]


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C from birth.

    Ctrl-C reaches the whole process group; the parent decides, and ends the workers. A new
    process inherits what is ignored, so there is no moment at which it could print a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _worker(pipe: Connection, modules: Sequence[str]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # read by torch when it is first imported
    for name in modules:
        importlib.import_module(name)
    with suppress(EOFError, OSError):  # nobody is there any more
        gpu = pipe.recv()
        if gpu is not None:  # read when CUDA is first used, which no import does
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        hands = Hands(pipe.recv_bytes())
        while True:
            pipe.send(hands.do(pipe.recv()))
