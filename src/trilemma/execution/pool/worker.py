"""What a worker does with its tasks, wherever it runs, and what is told of those it died on."""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trilemma.errors import InvalidInput, TrilemmaError, users_fault
from trilemma.execution.pool.base import Job, Joint, Spent
from trilemma.execution.pool.task_queue import name_of
from trilemma.execution.pool.worker_memory import keep_memory
from trilemma.execution.run_log import versions

__all__ = ["Failure", "Stopwatch", "Worker", "done", "one_thread", "payloads_of", "pickled"]

Kind = TypeVar("Kind", bound=Job)


@dataclass(frozen=True)
class Failure:
    """An error in a worker, as text: not every exception survives pickling.

    `message` is a sentence for who can mend it; empty where it is a bug of ours.
    """

    message: str
    trace: str


class Worker:
    """A worker's side: what it needs is unpickled and made once, for its first task.

    Torch has one thread from here on, and free memory is kept. Paths start at `folder`, where
    this machine has it.
    """

    def __init__(self, needed: bytes, folder: str = ".") -> None:
        if Path(folder).is_dir():
            os.chdir(folder)
        os.environ["OMP_NUM_THREADS"] = "1"  # read by torch when it is first imported ...
        if "torch" in sys.modules:  # ... which the program's main module may have done already
            sys.modules["torch"].set_num_threads(1)
        keep_memory()
        self._needed = needed
        self._work: Callable[[Any], bytes] | None = None

    def versions(self) -> str:
        """What is installed here, as numbers may depend on it."""
        return versions()

    def do(self, tasks: Sequence[Any]) -> tuple[list[bytes] | Failure, Spent]:
        """The payloads of tasks done in one call, or why there are none; seconds of a task."""
        watch = Stopwatch()
        try:
            self._work = self._work or _unpickled(self._needed)()
            watch = Stopwatch()
            answer: list[bytes] | Failure = done(self._work, tasks)
        except TrilemmaError as error:
            answer = Failure(str(error), trace=traceback.format_exc())
        except Exception as error:
            answer = Failure(users_fault(error), trace=traceback.format_exc())
        return answer, watch.each_of(len(tasks))


class Stopwatch:
    """Seconds from its making on, by the clock and of this process' CPU."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def each_of(self, tasks: int) -> Spent:
        """What each of so many tasks has taken; a GPU keeps its process busy all the time."""
        wall = time.monotonic() - self._wall
        torch = sys.modules.get("torch")
        on_gpu = torch is not None and torch.cuda.is_initialized()
        cpu = wall if on_gpu else time.process_time() - self._cpu
        return Spent(wall / tasks, cpu / tasks)


def pickled(
    make_work: Callable[[], Callable[[Kind], bytes]],
    dumps: Callable[[object], bytes] = pickle.dumps,
) -> bytes:
    """What goes to a worker, once."""
    try:
        return dumps(make_work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"the scenario cannot be sent to worker processes ({error}); name it as "
            f"'module:function', or use one worker."
        ) from error


def _unpickled(needed: bytes) -> Callable[[], Callable[[Any], bytes]]:
    try:
        made: Callable[[], Callable[[Any], bytes]] = pickle.loads(needed)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"a worker does not find the scenario's code ({error}); put it into a module that "
            f"can be imported wherever workers run, and name it as 'module:function'."
        ) from error
    return made


def done(work: Callable[[Any], bytes], tasks: Sequence[Any]) -> list[bytes]:
    """The payloads of tasks, made in one call where there are several."""
    if len(tasks) == 1:
        return [work(tasks[0])]
    assert isinstance(work, Joint)
    payloads = list(work.together(tasks))
    if len(payloads) != len(tasks):
        raise RuntimeError(f"{len(tasks)} tasks were done in one call, {len(payloads)} came back")
    return payloads


def payloads_of(answer: list[bytes] | Failure, tasks: Sequence[Job]) -> list[bytes]:
    """The payloads of tasks; a failure is raised."""
    if isinstance(answer, Failure):
        bug = RuntimeError(f"{name_of(tasks)} failed in a worker process:\n{answer.trace}")
        if answer.message:
            raise InvalidInput(answer.message) from bug
        raise bug
    return answer


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
