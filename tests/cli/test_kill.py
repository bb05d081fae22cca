"""kill -9 at random moments, and more workers: the same numbers as an undisturbed run's."""

from __future__ import annotations

import io
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import committed, comparable, dies, nobody_is_left, run, start

from trilemma.execution.run_log import RunLog

SMALL = ("--scenario", "tests.cli.own_scenario:small", "--restarts", "1")
SIMULATED = (
    *("tune", "--scenario", "tests.cli.own_scenario:shown", "--budget", "0.4"),
    *("--strengths", "2", "--seeds", "2", "--families", "randomization,secret-sharing"),
    *("--basis", "measured"),
    *("--attacks", "gaussian-posterior,analytic"),
)
REAL = (
    *("tune", "--scenario", "tests.cli.own_scenario:shown", "--budget", "0.4"),
    *("--restarts", "1", "--seeds", "2", "--steps", "2", "--candidates", "10", "--batch", "4"),
    *("--strengths", "2", "--families", "randomization", "--efficiency-weight", "0"),
    *("--basis", "measured"),
    *("--attacks", "gaussian-posterior,analytic"),
)


def estimate(folder: Path, chunks: int, workers: int) -> tuple[str, ...]:
    words = ("estimate", *SMALL[:2], "--clients", "1", "--models", str(32 * chunks))
    return (
        *words,
        "--attempts",
        "1",
        "--workers",
        str(workers),
        "--out",
        str(folder),
        "--seed",
        "5",
    )


def finished(words: tuple[str, ...], *, simulated: bool = False) -> None:
    code, _, err = run(*words, simulated=simulated)
    assert code == 0, err


def payloads(folder: Path) -> dict[str, dict[str, list[object]]]:
    """What `estimate` has committed, by chunk."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal:
        rows = journal.execute("SELECT key, payload FROM chunks").fetchall()
    found = {}
    for key, payload in rows:
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            found[key] = {name: stored[name].tolist() for name in stored}
    return found


def wait(process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
    while not until() and process.poll() is None:
        time.sleep(0.002)


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the process had ended by itself"


def kill_and_resume(
    words: tuple[str, ...], calm: Path, rough: Path, kills: int, *, simulated: bool
) -> None:
    """Kill where the journal has come so far, whatever the speed of this machine.

    The first kill comes as soon as there is a folder; the others are spread over all chunks, and
    each comes up to 20 ms after a commit of its own process.
    """
    draw, total, done = random.Random(kills), committed(calm), 0
    assert total > 2 * kills, "give the run more chunks, so that each kill finds work"
    for number in range(kills):
        if number == 0:
            process = start(*words, "--out", str(rough), simulated=simulated)
            wait(process, (rough / "lock").exists)
            kill(process)
        else:
            share = (number + draw.random()) / kills
            goal = max(done + 1, round((total - 2 * kills) * share))
            end = (goal - done, dies(draw.uniform(0, 0.02)))
            process = start(*words, "--out", str(rough), simulated=simulated, after=end)
            process.communicate()
            assert process.returncode == -signal.SIGALRM, "the run ended before all kills"
        assert committed(rough) >= done, "a committed chunk was lost"
        done = committed(rough)
    assert kills == 1 or done > total / 4, "kills are spread over the run"
    finished((*words, "--out", str(rough)), simulated=simulated)
    assert committed(rough) == total, "the same chunks, each once"


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "calm"
    finished((*SIMULATED, "--out", str(folder)), simulated=True)
    return folder


def test_a_tuning_that_was_killed_twice(tmp_path: Path, calm: Path) -> None:
    rough = tmp_path / "rough"
    kill_and_resume(SIMULATED, calm, rough, 2, simulated=True)
    assert comparable(rough) == comparable(calm)


def test_two_workers_find_what_one_does(tmp_path: Path, calm: Path) -> None:
    finished((*SIMULATED, "--out", str(tmp_path / "two"), "--workers", "2"), simulated=True)
    assert comparable(tmp_path / "two") == comparable(calm)


@pytest.mark.slow
def test_a_tuning_that_was_killed_twenty_times_with_two_workers(
    tmp_path: Path, calm: Path
) -> None:
    rough = tmp_path / "rough"
    words = (*SIMULATED, "--workers", "2")
    kill_and_resume(words, calm, rough, 20, simulated=True)
    assert comparable(rough) == comparable(calm)


@pytest.mark.slow
def test_real_attacks_by_one_two_and_four_workers_and_after_kills(tmp_path: Path) -> None:
    """The same verdict in every field that is not made from a measured time."""
    one = tmp_path / "one"
    finished((*REAL, "--out", str(one)))
    for workers in ("2", "4"):
        finished((*REAL, "--out", str(tmp_path / workers), "--workers", workers))
        assert comparable(tmp_path / workers) == comparable(one)
    rough = tmp_path / "rough"
    kill_and_resume((*REAL, "--workers", "4"), one, rough, 3, simulated=False)
    assert comparable(rough) == comparable(one)


@pytest.mark.slow
def test_an_estimate_that_was_killed(tmp_path: Path) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    finished(estimate(calm, 4, 1))
    words = estimate(rough, 4, 1)
    process = start(*words, after=(1, dies(0)))
    process.communicate()
    assert process.returncode == -signal.SIGALRM
    assert 1 <= committed(rough) < 4
    finished(words)
    assert payloads(rough) == payloads(calm)
    assert (rough / "estimate.json").read_text() == (calm / "estimate.json").read_text()


def children_of(pid: int) -> list[int]:
    """The fork server it has started, or the workers that were forked from one."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in listed
        if b"multiprocessing.forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Its worker processes: they are forked from the one that has imported everything."""
    return [worker for server in children_of(process.pid) for worker in children_of(server)]


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    finished(estimate(calm, 8, 2))
    process = start(*estimate(rough, 8, 2))
    for chunks in (1, 3):
        wait(process, lambda chunks=chunks: committed(rough) >= chunks)  # type: ignore[misc]
        os.kill(workers_of(process)[-1], signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert (rough / "estimate.json").read_text() == (calm / "estimate.json").read_text()


def test_ctrl_c_leaves_one_sentence_and_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # What a terminal does: to the whole group.
    interrupt = (2, "os.killpg(0, signal.SIGINT)")
    words = (*SIMULATED, "--out", str(folder), "--workers", "2")
    process = start(*words, simulated=True, after=interrupt)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "run the same command again to go on" in err
    assert RunLog(folder).lines()[-1].endswith("interrupted")
    nobody_is_left(process)
