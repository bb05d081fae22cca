"""Processes of this machine: every task once, dead workers replaced, errors in one sentence."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.execution.pool.number_tasks import Make, Number, make_square, make_trouble, square

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.execution.journal import Run
from trilemma.execution.pool import WorkerDied, WorkerPool
from trilemma.execution.scheduler import Procedure, Scheduler


def _stuck(task: Number) -> bytes:
    if task.number == 1:
        time.sleep(60)  # it is ended long before
    return square(task)


def make_stuck() -> Callable[[Number], bytes]:
    return _stuck


def _threads(task: Number) -> bytes:
    import torch  # here, as the other tests' workers start much faster without

    return f"{torch.get_num_threads()}".encode()


def make_threads() -> Callable[[Number], bytes]:
    return _threads


def _die(folder: Path, times: int, task: Number) -> bytes:
    """kill -9 the worker the first `times` times that it has number 1, and only there."""
    if task.number == 1:
        died = len(list(folder.glob("died-*")))
        if died < times:
            (folder / f"died-{died}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return square(task)


def make_die(folder: Path, times: int) -> Callable[[Number], bytes]:
    return partial(_die, folder, times)


def _seen(task: Number) -> bytes:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "all").encode()


def make_seen() -> Callable[[Number], bytes]:
    return _seen


def done(make: Make, numbers: Sequence[int], workers: int) -> list[tuple[int, bytes]]:
    with WorkerPool[Number](make, workers=workers) as pool:
        for number in numbers:
            pool.submit(Number(number))
        found = [pool.next() for _ in numbers]
    return sorted((task.number, payload) for task, payload in found)


def working() -> list[int]:
    return [item.pid for item in multiprocessing.active_children() if item.pid is not None]


def _parent(task: Number) -> bytes:
    return str(os.getppid()).encode()


def make_parent() -> Callable[[Number], bytes]:
    return _parent


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_once_whatever_the_workers(workers: int) -> None:
    assert done(make_square, [3, 1, 2], workers) == [(1, b"1"), (2, b"4"), (3, b"9")]
    assert not multiprocessing.active_children()


def test_what_takes_too_long_is_dropped_for_a_fresh_process() -> None:
    with WorkerPool[Number](make_stuck, workers=2) as pool:
        pool.submit(Number(1))
        with pytest.raises(TimeoutError):
            pool.next(within=0.5)
        assert len(working()) == 1
        pool.drop()
        assert not working()
        pool.submit(Number(2))
        assert pool.next() == (Number(2), b"4")
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("visible", "gpus"), [(None, {b"0", b"1"}), ("5,3,9", {b"5", b"3"})])
def test_several_gpus_are_shared_evenly(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, gpus: set[bytes]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with WorkerPool[Number](make_seen, workers=4, device="cuda") as pool:
        for number in range(4):
            pool.submit(Number(number))
        found = [pool.next()[1] for _ in range(4)]
    assert {gpu: found.count(gpu) for gpu in gpus} == dict.fromkeys(gpus, 2)


def test_other_devices_see_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with WorkerPool[Number](make_seen, workers=2, device="cuda:1") as pool:
        pool.submit(Number(0))
        assert pool.next()[1] == b"all"


def test_no_tasks_no_processes() -> None:
    with WorkerPool[Number](make_square, workers=2):
        assert not multiprocessing.active_children()


NUMBERS = [Number(number) for number in range(4)]


def all_of_them() -> Procedure[list[bytes]]:
    return (yield NUMBERS)


@pytest.mark.parametrize("times", [1, 2])
def test_a_killed_worker_is_replaced_and_the_run_ends_the_same(tmp_path: Path, times: int) -> None:
    make = partial(make_die, tmp_path, times)
    with Run.open(tmp_path / "run", {}) as run, WorkerPool[Number](make, workers=2) as pool:
        found = Scheduler(pool, bytes, run=run).run_all({"all": all_of_them()})
        assert [run.committed(item.key) for item in NUMBERS] == found["all"]
    assert found == {"all": [b"0", b"1", b"4", b"9"]}
    assert len(list(tmp_path.glob("died-*"))) == times
    assert not multiprocessing.active_children()


def test_three_deaths_on_one_task_are_one_sentence_and_nothing_is_lost(tmp_path: Path) -> None:
    make = partial(make_die, tmp_path, 3)
    with (
        Run.open(tmp_path / "run", {}) as run,
        pytest.raises(
            WorkerDied,
            match=r"^3 worker processes died on number 1, .*code -9.*is kept",
        ) as error,
        WorkerPool[Number](make, workers=2) as pool,
    ):
        Scheduler(pool, bytes, run=run).run_all({"all": all_of_them()})
    assert "\n" not in str(error.value)
    assert not multiprocessing.active_children()
    with Run.open(tmp_path / "run", {}) as run, WorkerPool[Number](make, workers=2) as pool:
        assert run.committed(NUMBERS[1].key) is None
        found = Scheduler(pool, bytes, run=run).run_all({"all": all_of_them()})
        assert found == {"all": [b"0", b"1", b"4", b"9"]}


def test_a_worker_killed_while_it_waits_is_replaced_too() -> None:
    with WorkerPool[Number](make_square, workers=2) as pool:
        pool.submit(Number(5))
        assert pool.next() == (Number(5), b"25")
        (idle,) = working()
        os.kill(idle, signal.SIGKILL)
        pool.submit(Number(6))
        assert pool.next() == (Number(6), b"36")
        assert working() != [idle]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_workers_outlive_the_process_that_they_are_forked_from() -> None:
    with WorkerPool[Number](make_parent, workers=2) as pool:
        pool.submit(Number(5))
        server = int(pool.next()[1])
        assert server != os.getpid()
        os.kill(server, signal.SIGKILL)
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
        for number in (6, 7):  # one for the worker there is, one for another
            pool.submit(Number(number))
        assert {pool.next()[0].number for _ in range(2)} == {6, 7}
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_mistake_keeps_its_sentence(workers: int) -> None:
    with pytest.raises(TrilemmaError, match=r"^the model returns NaN\.$"):
        done(partial(make_trouble, "mendable"), [0, 1], workers)


def test_an_error_in_a_users_code_has_its_place_and_its_traceback() -> None:
    sentence = r"your code failed .ZeroDivisionError: a bug; .*number_tasks.py, line \d+"
    with pytest.raises(InvalidInput, match=sentence) as error:
        done(partial(make_trouble, "bug"), [0, 1], 2)
    trace = str(error.value.__cause__)
    assert "number 1 failed in a worker process" in trace
    assert "Traceback (most recent call last)" in trace


def test_who_waits_may_have_enough() -> None:
    with WorkerPool[Number](partial(make_trouble, "slow"), workers=2) as pool:
        pool.submit(Number(1))
        with pytest.raises(TimeoutError, match=r"within 0\.01 seconds"):
            pool.next(within=0.01)


@pytest.mark.parametrize("workers", [1, 2])
def test_work_runs_on_one_thread(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert {payload for _, payload in done(make_threads, [0, 1], workers)} == {b"1"}
        assert torch.get_num_threads() == 2, "only while it works"
    finally:
        torch.set_num_threads(before)


def test_what_cannot_be_pickled_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidInput, match="module:function"):
        done(lambda: square, [0, 1], 2)
    with pytest.raises(InvalidInput, match="at least 1, got 0"):
        done(make_square, [0], 0)


PROGRAM = """
from functools import partial
from tests.execution.pool.number_tasks import Number, make_trouble
from trilemma.execution.pool import WorkerPool
if __name__ == "__main__":
    with WorkerPool(partial(make_trouble, "x" * 2**20), workers=2) as pool:
        pool.submit(Number(0))
        pool.next()
"""


def test_a_program_that_workers_cannot_read_ends_with_a_sentence() -> None:
    """Read from stdin it has no file for them; a scenario's bytes are more than a pipe holds."""
    ended = subprocess.run(
        [sys.executable, "-"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert ended.returncode == 1
    assert "InvalidInput: worker processes import the program's main module" in ended.stderr
    assert "keep the program in a file" in ended.stderr


def test_a_machine_that_starts_no_process_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", refuse)
    with pytest.raises(WorkerDied, match=r"process 1 cannot be started.*use fewer workers"):
        done(make_square, [0], 2)
