"""Where the worker processes of this machine come from.

An interpreter that imports torch takes seconds of CPU time. So one fresh interpreter imports what
all workers need, and is forked for each of them, which takes milliseconds. Only a process of one
thread may be forked, and none that uses a GPU: where that cannot be had (on other systems than
Linux, for work on a GPU, or if the program's main module starts threads), each worker is a fresh
interpreter of its own, as many as wanted started at once.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, Final, Protocol

from trilemma.work.executors.memory import for_good

__all__ = ["Life", "Nursery", "Process", "end"]

Life = Callable[[Connection], None]
"""What a worker does with its end of the pipe until it ends."""
_FORKS: Final = sys.platform == "linux"  # elsewhere there is none, or libraries do not survive it
_BROKEN: Final = (EOFError, OSError)  # of a pipe to a process that has ended


class Process(Protocol):
    """A process that can be ended and waited for, as one of multiprocessing's."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def terminate(self) -> None: ...

    def join(self) -> None: ...


class Nursery:
    """Makes processes that lead a `life`, with `modules` imported.

    So many as are `expected` are under way from the start. `fork` False: each is a fresh
    interpreter. Once it is closed, no process is left but those that were handed out.
    """

    def __init__(
        self, life: Life, *, modules: Sequence[str] = (), expected: int = 0, fork: bool = True
    ) -> None:
        self._life, self._modules, self.fork = life, modules, fork
        self._nurse: _Nurse | None = None
        self._waiting: deque[tuple[Connection, Process]] = deque()
        if fork and _FORKS:
            self._nurse = _Nurse(life, modules)
        else:
            self._waiting.extend(self._fresh() for _ in range(expected))

    def close(self) -> None:
        """End what was not handed out."""
        end(self._waiting)
        if self._nurse is not None:
            self._nurse.end()

    def worker(self) -> tuple[Connection, Process]:
        """A process, and the pipe to it; `OSError` where none can be had."""
        if self._nurse is not None and self._nurse.ready:
            with suppress(*_BROKEN):  # it has died: there are other ways
                return self._nurse.fork()
        return self._waiting.popleft() if self._waiting else self._fresh()

    def _fresh(self) -> tuple[Connection, Process]:
        return _started(_fresh_life, self._life, self._modules)


def end(workers: Collection[tuple[Connection, Process]]) -> None:
    """End workers, all at once, as each takes a while to give its memory back."""
    for pipe, process in workers:
        pipe.close()
        process.terminate()
    for _, process in workers:
        process.join()


class _Nurse:
    """The process that is forked, as its parent sees it: it does what is written to its pipe."""

    def __init__(self, life: Life, modules: Sequence[str]) -> None:
        self._pipe, self._process = _started(_nurse, life, modules)
        self._ready: bool | None = None

    @property
    def ready(self) -> bool:
        """Whether it can be forked; waits until it has imported its modules."""
        if self._ready is None:
            try:
                self._ready = self._pipe.recv()
            except _BROKEN:
                self._ready = False
        return bool(self._ready)

    def fork(self) -> tuple[Connection, Process]:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._pipe.send(("fork", 0))
            send_handle(self._pipe, theirs.fileno(), self._process.pid)
        pid = self._pipe.recv()
        if isinstance(pid, OSError):
            ours.close()
            raise pid
        return ours, _Forked(pid, self.told)

    def told(self, order: str, pid: int) -> Any:
        """Its answer to an order, None where it has ended."""
        with suppress(*_BROKEN):
            self._pipe.send((order, pid))
            return self._pipe.recv()
        return None

    def end(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


class _Forked:
    """A worker of the nurse, who alone may wait for it.

    Should she have died, the worker still ends by itself when its pipe is closed.
    """

    def __init__(self, pid: int, told: Callable[[str, int], Any]) -> None:
        self.pid, self.exitcode, self._told = pid, None, told

    def terminate(self) -> None:
        self._told("end", self.pid)

    def join(self) -> None:
        self.exitcode = self._told("wait", self.pid)


def _started(target: Callable[..., None], *given: object) -> tuple[Connection, BaseProcess]:
    """A fresh interpreter, and the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *given), daemon=True)
    with theirs, _single_threaded(), _deaf_to_ctrl_c():
        process.start()
    return ours, process


def _fresh_life(pipe: Connection, life: Life, modules: Sequence[str]) -> None:
    _read(modules)
    life(pipe)


def _read(modules: Sequence[str]) -> None:
    with for_good():  # a worker that collects garbage would copy every page of what all share
        for name in modules:
            importlib.import_module(name)


def _nurse(pipe: Connection, life: Life, modules: Sequence[str]) -> None:
    """Import, and fork when told to; ends when nobody is there any more."""
    _read(modules)
    with suppress(*_BROKEN):
        pipe.send(_threads() == 1)
        while True:
            order, pid = pipe.recv()
            pipe.send(_forked(pipe, life) if order == "fork" else _ORDERS[order](pid))


def _threads() -> int:
    """How many threads this process has, those of libraries counted in."""
    return len(list(Path("/proc/self/task").iterdir()))


def _forked(pipe: Connection, life: Life) -> int | OSError:
    """The worker's number, for the nurse; the worker itself leads its life and ends here."""
    handle = recv_handle(pipe)
    sys.stdout.flush()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(handle)
        return error
    if pid == 0:
        pipe.close()  # whoever holds it keeps the nurse from being seen to end
        _lead(life, Connection(handle))
    os.close(handle)
    return pid


def _lead(life: Life, pipe: Connection) -> None:
    """The whole life of a worker that was forked."""
    code = 1
    try:
        if "numpy" in sys.modules:  # or all workers would draw alike where users name no seed
            sys.modules["numpy"].random.seed()
        life(pipe)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _ended(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)  # nobody else has its number before it was waited for


def _waited(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


_ORDERS: Final[dict[str, Callable[[int], int | None]]] = {"end": _ended, "wait": _waited}


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Start processes in which libraries of linear algebra use one thread.

    They read this when they are imported, which the program's main module may do.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


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
