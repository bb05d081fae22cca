"""Processes of this machine: results come back as they finish, whatever their order.

Each worker is a fresh interpreter (spawn) with one torch thread, fed through its own pipe. When
the parent dies, even by kill -9, the pipe closes and the worker ends by itself; a process pool of
the standard library would leave it waiting for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, Self, TypeVar

from trilemma.errors import InvalidInput, TrilemmaError, users_fault
from trilemma.work.executors.base import Job, WorkerDied

__all__ = ["Crew", "one_thread"]

_TRIES: Final = 3
Kind = TypeVar("Kind", bound=Job)


@dataclass(frozen=True)
class _Try(Generic[Kind]):
    """A task, and how many workers have died on it."""

    task: Kind
    deaths: int = 0


class Crew(Generic[Kind]):
    """Workers that stay; `make_work` runs once in each and builds what all tasks share.

    A process starts when there is a task that no idle one can take. With one worker the tasks run
    here, one at a time, when their payload is asked for.
    """

    def __init__(self, make_work: Callable[[], Callable[[Kind], bytes]], *, workers: int) -> None:
        if workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {workers}.")
        self._make_work, self._workers = make_work, workers
        self._waiting: deque[_Try[Kind]] = deque()
        self._pending: dict[Connection, _Try[Kind]] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        self._work: Callable[[Kind], bytes] | None = None
        self._pickled = b""
        self.spent = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, process in self._processes.items():
            pipe.close()
            process.terminate()
            process.join()

    def submit(self, task: Kind) -> None:
        """Queue a task; it starts at once where a worker is free."""
        self._waiting.append(_Try(task))
        if self._workers > 1:
            self._hand_out()

    def next(self, within: float | None = None) -> tuple[Kind, bytes]:
        """The next finished task and its payload; waits for it.

        With several workers, `TimeoutError` after `within` seconds.
        """
        if self._workers == 1:
            task = self._waiting.popleft().task
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
                self._bury(ready, tried)
                self._hand_out()
                continue
            self._hand_out()
            return tried.task, _payload(answer, tried.task)

    def _bury(self, pipe: Connection, tried: _Try[Kind]) -> None:
        """Let go of a worker that died; its task comes first, for a new one."""
        process = self._processes.pop(pipe)
        pipe.close()
        process.join()
        if tried.deaths + 1 == _TRIES:
            raise WorkerDied(
                f"{_TRIES} worker processes died on {_name(tried.task)}, the last with exit code "
                f"{process.exitcode}, perhaps for lack of memory; what was finished is kept: run "
                f"the same command again, with fewer workers if it happens again."
            )
        self._waiting.appendleft(_Try(tried.task, tried.deaths + 1))

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
        if not self._pickled:
            try:
                self._pickled = pickle.dumps(self._make_work)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InvalidInput(
                    f"the scenario cannot be sent to worker processes ({error}); name it as "
                    f"'module:function', or use one worker."
                ) from error
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        started = context.Process(target=_worker, args=(theirs, self._pickled), daemon=True)
        try:
            with _deaf_to_ctrl_c():
                started.start()
        except OSError as error:
            raise WorkerDied(
                f"worker process {len(self._processes) + 1} cannot be started "
                f"({error.strerror}); use fewer workers."
            ) from error
        theirs.close()
        self._processes[ours] = started
        return ours


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: several under load run far slower, and sums change their order."""
    import torch  # heavy: importing this file must stay cheap

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Failure:
    """An error in a worker, as text: not every exception survives pickling.

    `message` is a sentence for who can mend it; empty where it is a bug of ours.
    """

    message: str
    trace: str


def _payload(answer: bytes | _Failure, task: Job) -> bytes:
    if isinstance(answer, _Failure):
        bug = RuntimeError(f"{_name(task)} failed in a worker process:\n{answer.trace}")
        if answer.message:
            raise InvalidInput(answer.message) from bug
        raise bug
    return answer


def _name(task: Job) -> str:
    stage, chunk = task.key()
    return f"chunk {chunk} of {stage!r}"


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


def _worker(pipe: Connection, pickled: bytes) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # read by torch when it is first imported ...
    if "torch" in sys.modules:  # ... which the program's main module may have done already
        sys.modules["torch"].set_num_threads(1)
    work: Callable[[Any], bytes] | None = None
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        start = time.monotonic()
        try:
            work = work or pickle.loads(pickled)()
            start = time.monotonic()
            answer: bytes | _Failure = work(task)
        except TrilemmaError as error:
            answer = _Failure(str(error), trace=traceback.format_exc())
        except Exception as error:
            answer = _Failure(users_fault(error), trace=traceback.format_exc())
        try:
            pipe.send((answer, time.monotonic() - start))
        except OSError:
            return
