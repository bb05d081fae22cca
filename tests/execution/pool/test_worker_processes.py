"""Where workers come from: one server that forks them, or fresh interpreters; none outlives us."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.cli.running import nobody_is_left

from trilemma.execution.pool.worker_processes import end, start

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

# A program of its own, as users write them: what is sent to workers is defined in its main module.
PROGRAM = """
import multiprocessing, os, sys, threading, time
from dataclasses import dataclass
from trilemma.execution.pool import WorkerPool

@dataclass(frozen=True)
class Number:
    number: int
    @property
    def key(self):
        return str(self.number)
    label = key

class Make:
    preload = ("numpy.random",)
    def __call__(self):
        return lambda task: f"{os.environ.get('LATE')} {'numpy' in sys.modules}".encode()

class Draw(Make):
    def __call__(self):
        import numpy
        def draw(task):
            time.sleep(1)  # so that the other task is for the other worker
            return f"{os.getpid()} {numpy.random.random()}".encode()
        return draw

def draw():
    with WorkerPool(Draw(), workers=2) as pool:
        pool.submit(Number(1), Number(2))
        print(*(pool.next()[1].decode() for _ in range(2)))

def work():
    with WorkerPool(Make(), workers=2) as pool:
        pool.submit(Number(1))
        print(pool.next()[1].decode(), flush=True)
        threading.Event().wait(float(sys.argv[1]))

"""
GUARDED = 'if __name__ == "__main__":\n    '
OWN_SERVER = """
    process = multiprocessing.get_context("forkserver").Process(target=str)
    process.start()
    process.join()
    os.environ["LATE"] = "set"
"""


def started(folder: Path, last: str, seconds: float = 0) -> subprocess.Popen[str]:
    file = folder / "program.py"
    file.write_text(PROGRAM + last)
    where = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, str(file), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": where},
        start_new_session=True,
    )


@linux
@pytest.mark.parametrize(
    ("before", "answer"), [("", "None True"), (OWN_SERVER + "    ", "set False")]
)
def test_what_is_preloaded_is_there_unless_the_program_has_a_server_already(
    tmp_path: Path, before: str, answer: str
) -> None:
    """Then workers import it themselves; the program's environment is theirs all the same."""
    process = started(tmp_path, GUARDED + before.lstrip() + "work()")
    out, err = process.communicate()
    assert (out.strip(), err) == (answer, "")
    nobody_is_left(process)


def test_workers_do_not_draw_alike(tmp_path: Path) -> None:
    out, _ = started(tmp_path, GUARDED + "draw()").communicate()
    assert len(out.split()) == len(set(out.split())) == 4


def test_a_main_module_without_a_guard_is_one_sentence(tmp_path: Path) -> None:
    process = started(tmp_path, "work()")
    _, err = process.communicate()
    assert process.returncode == 1
    assert err.count("Traceback") == 1, "the program's own; workers add none"
    assert "put what it does under `if __name__ == '__main__':`" in err.splitlines()[-1]
    nobody_is_left(process)


@pytest.mark.parametrize("before", ["", OWN_SERVER + "    "])
def test_ctrl_c_is_the_programs_alone(tmp_path: Path, before: str) -> None:
    last = GUARDED + before.lstrip() + "work()"
    handler = "import signal\nsignal.signal(2, lambda *_: sys.exit(3))\n"
    process = started(tmp_path, handler + last, 60)
    assert process.stdout is not None
    assert process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (3, "")
    nobody_is_left(process)


def test_nobody_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    process = started(tmp_path, GUARDED + "work()", 60)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    nobody_is_left(process)


def _pid(pipe: Connection) -> None:
    pipe.send(os.getpid())
    pipe.recv()


@pytest.mark.parametrize("fork", [True, False])
def test_processes_run_until_they_are_ended(fork: bool) -> None:
    workers = [start(_pid, preload=(), fork=fork) for _ in range(2)]
    assert [pipe.recv() for pipe, _ in workers] == [process.pid for _, process in workers]
    end(workers)
    assert {process.exitcode for _, process in workers} == {-signal.SIGTERM}
    assert not multiprocessing.active_children()
