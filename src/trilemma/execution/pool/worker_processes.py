"""Worker processes of this machine, by multiprocessing's own start methods.

On Linux they are forked from one server that has imported torch, in milliseconds. A GPU and the
libraries of other systems do not survive a fork: there each worker is a fresh interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext  # one is not Windows'

__all__ = ["end", "start"]


def start(
    target: Callable[[Connection], None], *, preload: Sequence[str], fork: bool
) -> tuple[Connection, BaseProcess]:
    """Our end of a pipe, and a process that runs `target` with the other end.

    The server imports the modules of `preload` when it starts. There is one server in a program,
    until the program ends: where it runs already, workers import what they need by themselves.
    """
    context: SpawnContext | ForkServerContext = multiprocessing.get_context("spawn")
    if fork and sys.platform == "linux":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(preload))
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs,), daemon=True)
    with theirs, _inherited():
        try:
            process.start()
        except RuntimeError:  # this is a worker that imports a main module which starts workers
            raise SystemExit(1) from None  # the program itself reports it, once
    return ours, process


def end(workers: Iterable[tuple[Connection, BaseProcess]]) -> None:
    """End workers, all at once, as each takes a while to give its memory back."""
    workers = list(workers)
    for pipe, process in workers:
        pipe.close()
        process.terminate()
    for _, process in workers:
        process.join()


@contextmanager
def _inherited() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, with one thread for linear algebra.

    Ctrl-C reaches the whole process group; the parent decides, and ends the workers. Libraries
    read the number of threads when they are imported.
    """
    threads = os.environ.get("OMP_NUM_THREADS")
    main = threading.current_thread() is threading.main_thread()  # or no handler can be set
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
