"""Where workers come from: forked where one thread is sure, fresh elsewhere; none outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.commands.running import nobody_is_left

from trilemma.work.executors import nursery
from trilemma.work.executors.nursery import Nursery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")

# A program of its own, as users write them: what is sent to workers is defined in its main module.
PROGRAM = """
import os, sys, threading
from dataclasses import dataclass
from trilemma.work.executors import Crew
{first}
@dataclass(frozen=True)
class Number:
    number: int
    @property
    def key(self):
        return str(self.number)
    label = key

def work(task):
    return str(os.getppid() == int(os.environ.get("FIRST", "0"))).encode()

def make():
    return work

if __name__ == "__main__":
    os.environ["FIRST"] = str(os.getpid())
    with Crew(make, workers=2) as crew:
        crew.submit(Number(1))
        print(crew.next()[1].decode(), flush=True)
        {last}
"""
THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()"


def started(folder: Path, first: str = "", last: str = "") -> subprocess.Popen[str]:
    file = folder / "program.py"
    file.write_text(PROGRAM.format(first=first, last=last))
    where = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": where},
        start_new_session=True,
    )


@pytest.mark.parametrize(("first", "own"), [("", "False"), (THREAD, "True")])
def test_workers_of_a_main_module_with_threads_are_its_own_children(
    tmp_path: Path, first: str, own: str
) -> None:
    out, _ = started(tmp_path, first).communicate()
    assert out.split() == [own]


def test_nobody_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    process = started(tmp_path, last="threading.Event().wait()")
    assert process.stdout is not None
    assert process.stdout.readline() == "False\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    nobody_is_left(process)


def _pid(pipe: Connection) -> None:
    pipe.send(os.getpid())


def _draw(pipe: Connection) -> None:
    import numpy as np

    pipe.send(np.random.random())  # noqa: NPY002 - as users do who name no seed


def _bad(pipe: Connection) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("fork", [True, False])
def test_processes_are_ended_and_waited_for_alike(fork: bool) -> None:
    made = Nursery(_pid, expected=1, fork=fork)
    try:
        pipe, process = made.worker()
        assert pipe.recv() == process.pid
        process.join()
        assert process.exitcode == 0
    finally:
        made.close()


def test_forks_do_not_draw_alike() -> None:
    made = Nursery(_draw, modules=("numpy",))
    try:
        drawn = {made.worker()[0].recv() for _ in range(3)}
    finally:
        made.close()
    assert len(drawn) == 3


def test_a_fork_that_fails_tells_and_has_a_code() -> None:
    made = Nursery(_bad)
    try:
        pipe, process = made.worker()
        with pytest.raises(EOFError):
            pipe.recv()
        process.join()
        assert process.exitcode == 1
    finally:
        made.close()


def test_elsewhere_each_is_a_fresh_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "_FORKS", False)
    made = Nursery(_pid, expected=2)
    try:
        pids = {made.worker()[1].pid for _ in range(2)}
        assert len(pids) == 2
    finally:
        made.close()
