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
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from trilemma.errors import InvalidInput, TrilemmaError

__all__ = ["WorkerDied", "map_chunks", "one_thread"]

Work = Callable[[int], bytes]


class WorkerDied(TrilemmaError):
    """A worker process ended without an answer, most often for lack of memory."""


def map_chunks(
    make_work: Callable[[], Work], chunks: Sequence[int], *, workers: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (chunk, make_work()(chunk)) for every chunk, in the order in which they finish.

    `make_work` runs once in each process: it builds what all chunks share. With one worker it runs
    here, in the order given. The payload of a chunk may depend on the chunk alone.
    """
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, got {workers}.")
    if not chunks:
        return
    if workers == 1:
        with one_thread():
            work = make_work()
            for chunk in chunks:
                yield chunk, work(chunk)
        return
    try:
        pickled = pickle.dumps(make_work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"the scenario cannot be sent to worker processes ({error}); name it as "
            f"'module:function', or use one worker."
        ) from error
    yield from _spread(pickled, chunks, min(workers, len(chunks)))


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


def _spread(pickled: bytes, chunks: Sequence[int], workers: int) -> Iterator[tuple[int, bytes]]:
    context = multiprocessing.get_context("spawn")
    waiting = deque(chunks)
    pending: dict[Connection, tuple[BaseProcess, int]] = {}
    processes: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            started = context.Process(target=_worker, args=(theirs, pickled), daemon=True)
            started.start()
            theirs.close()
            processes.append((started, ours))
        for process, pipe in processes:
            pending[pipe] = (process, waiting.popleft())
            _send(pipe, pending[pipe][1])
        while pending:
            for ready in wait(list(pending)):
                assert isinstance(ready, Connection)
                process, chunk = pending.pop(ready)
                answer = _receive(ready, process, chunk)
                if waiting:
                    pending[ready] = (process, waiting.popleft())
                    _send(ready, pending[ready][1])
                yield chunk, answer
    finally:
        for process, pipe in processes:
            pipe.close()
            process.terminate()
            process.join()


def _send(pipe: Connection, chunk: int) -> None:
    # A worker that has just died is reported when its answer is read.
    with suppress(BrokenPipeError):
        pipe.send(chunk)


def _receive(pipe: Connection, process: BaseProcess, chunk: int) -> bytes:
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        raise WorkerDied(
            f"a worker process died on chunk {chunk} (exit code {process.exitcode}), perhaps for "
            f"lack of memory; what was finished is kept: run the same command again, with fewer "
            f"workers if it happens again."
        ) from None
    if isinstance(answer, _Failure):
        if answer.mendable:
            raise InvalidInput(answer.message)
        raise RuntimeError(f"chunk {chunk} failed in a worker process:\n{answer.message}")
    assert isinstance(answer, bytes)
    return answer


def _worker(pipe: Connection, pickled: bytes) -> None:
    # Ctrl-C reaches the whole process group; the parent decides, and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    with one_thread():
        work: Work | None = None
        while True:
            try:
                chunk = pipe.recv()
            except (EOFError, OSError):
                return
            try:
                work = work or pickle.loads(pickled)()
                answer: bytes | _Failure = work(chunk)
            except TrilemmaError as error:
                answer = _Failure(str(error), mendable=True)
            except Exception:
                answer = _Failure(traceback.format_exc(), mendable=False)
            try:
                pipe.send(answer)
            except OSError:
                return
