"""Spread chunks over worker processes; results come back as they finish, whatever their order.

Each worker is a fresh interpreter (spawn) with one torch thread, fed through its own pipe. When
the parent dies, even by kill -9, the pipe closes and the worker ends by itself; a process pool of
the standard library would leave it waiting for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from trilemma.errors import InvalidInput, TrilemmaError

__all__ = ["Crew", "WorkerDied", "map_chunks", "one_thread"]

Work = Callable[[int], bytes]
Task = TypeVar("Task")


class WorkerDied(TrilemmaError):
    """A worker process ended without an answer, most often for lack of memory."""


def map_chunks(
    make_work: Callable[[], Work], chunks: Sequence[int], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (chunk, make_work()(chunk)) for every chunk, in the order in which they finish.

    `make_work` runs once in each process: it builds what all chunks share. With one worker it runs
    here, in the order given. The payload of a chunk may depend on the chunk alone.
    """
    with Crew(make_work, workers=workers) as crew:
        for chunk in chunks:
            crew.submit(chunk)
        for _ in chunks:
            yield crew.next()


class Crew(Generic[Task]):
    """Workers that stay: tasks go in at any time, and payloads come out as they are finished.

    A process starts when there is a task that no idle one can take. With one worker the tasks run
    here, one at a time, when their payload is asked for.
    """

    def __init__(self, make_work: Callable[[], Callable[[Task], bytes]], *, workers: int) -> None:
        if workers < 1:
            raise InvalidInput(f"workers must be at least 1, got {workers}.")
        self._make_work, self._workers = make_work, workers
        self._waiting: deque[Task] = deque()
        self._pending: dict[Connection, tuple[BaseProcess, Task]] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        self._work: Callable[[Task], bytes] | None = None
        self._pickled = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe, process in self._processes.items():
            pipe.close()
            process.terminate()
            process.join()

    def submit(self, task: Task) -> None:
        """Queue a task; it starts at once where a worker is free."""
        self._waiting.append(task)
        if self._workers > 1:
            self._hand_out()

    def next(self) -> tuple[Task, bytes]:
        """The next finished task and its payload; waits for it."""
        if self._workers == 1:
            task = self._waiting.popleft()
            with one_thread():
                self._work = self._work or self._make_work()
                return task, self._work(task)
        ready = wait(list(self._pending))[0]
        assert isinstance(ready, Connection)
        process, task = self._pending.pop(ready)
        payload = _receive(ready, process, task)
        self._hand_out()
        return task, payload

    def _hand_out(self) -> None:
        while self._waiting:
            idle = [pipe for pipe in self._processes if pipe not in self._pending]
            if not idle and len(self._processes) >= self._workers:
                return
            pipe = idle[0] if idle else self._start()
            task = self._waiting.popleft()
            self._pending[pipe] = self._processes[pipe], task
            # A worker that has just died is reported when its answer is read.
            with suppress(BrokenPipeError):
                pipe.send(task)

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
        with _deaf_to_ctrl_c():
            started.start()
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
    """An error in a worker, as text: not every exception survives pickling."""

    message: str
    mendable: bool


def _receive(pipe: Connection, process: BaseProcess, task: object) -> bytes:
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        raise WorkerDied(
            f"a worker process died on chunk {task} (exit code {process.exitcode}), perhaps for "
            f"lack of memory; what was finished is kept: run the same command again, with fewer "
            f"workers if it happens again."
        ) from None
    if isinstance(answer, _Failure):
        if answer.mendable:
            raise InvalidInput(answer.message)
        raise RuntimeError(f"chunk {task} failed in a worker process:\n{answer.message}")
    assert isinstance(answer, bytes)
    return answer


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
    os.environ["OMP_NUM_THREADS"] = "1"
    with one_thread():
        work: Callable[[Any], bytes] | None = None
        while True:
            try:
                task = pipe.recv()
            except (EOFError, OSError):
                return
            try:
                work = work or pickle.loads(pickled)()
                answer: bytes | _Failure = work(task)
            except TrilemmaError as error:
                answer = _Failure(str(error), mendable=True)
            except Exception:
                answer = _Failure(traceback.format_exc(), mendable=False)
            try:
                pipe.send(answer)
            except OSError:
                return
