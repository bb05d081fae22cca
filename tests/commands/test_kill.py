"""kill -9 an `estimate` run at random moments: it resumes to exactly the undisturbed numbers."""

from __future__ import annotations

import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from trilemma.work.log import RunLog

ROOT = Path(__file__).parents[2]


# A job in the background ignores Ctrl-C and hands that on to what it starts, such as this test.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from trilemma.cli import main
main()
"""


def start(
    folder: Path, units: int, workers: int, *, start_new_session: bool = False
) -> subprocess.Popen[bytes]:
    words = ["estimate", "--scenario", "tests.commands.own_scenario:small", "--units", str(units)]
    words += ["--restarts", "1", "--workers", str(workers), "--out", str(folder), "--seed", "5"]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=start_new_session,
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()


def committed(folder: Path) -> dict[int, bytes]:
    journal = folder / "journal.sqlite"
    if not journal.exists():
        return {}
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as reader:
        try:
            return dict(reader.execute("SELECT chunk, payload FROM chunks").fetchall())
        except sqlite3.OperationalError:  # killed before the tables were made
            return {}


def events(folder: Path) -> int:
    """Lines of the run's log, the first of which a process writes when it has the folder."""
    return len(RunLog(folder).lines())


def arrays(payload: bytes) -> dict[str, list[object]]:
    with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
        return {name: stored[name].tolist() for name in stored}


def kill_and_resume(tmp_path: Path, *, kills: int, chunks: int, workers: int) -> None:
    draw = random.Random(kills)
    units = 32 * chunks
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    finish(start(calm, units, workers))
    expected = committed(calm)
    assert len(expected) == chunks
    kept: dict[int, bytes] = {}
    killed_at: list[int] = []
    while len(killed_at) < kills:
        process = start(rough, units, workers)
        # Whatever the speed of this machine: every other time as soon as the process works in the
        # folder, else after its first commit.
        before = events(rough)
        while events(rough) == before and process.poll() is None:
            time.sleep(0.002)
        if len(killed_at) % 2:
            while len(committed(rough)) == len(kept) and process.poll() is None:
                time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = committed(rough)
        assert kept.items() <= now.items(), "a committed chunk was lost or written again"
        kept = now
        killed_at.append(len(now))
        assert len(now) < chunks, "the run ended before all kills: give it more chunks"
    finish(start(rough, units, workers))
    ended = committed(rough)
    assert kept.items() <= ended.items()
    assert max(killed_at) > 0, "no kill came after a commit"
    assert {c: arrays(p) for c, p in ended.items()} == {c: arrays(p) for c, p in expected.items()}
    assert (rough / "estimate.json").read_text() == (calm / "estimate.json").read_text()


def test_two_kills(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=2, chunks=12, workers=1)


@pytest.mark.slow
def test_twenty_kills_with_two_workers(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=20, chunks=70, workers=2)


@pytest.mark.slow
def test_ctrl_c_with_two_workers_leaves_one_sentence_and_no_process(tmp_path: Path) -> None:
    process = start(tmp_path / "run", 32 * 70, 2, start_new_session=True)
    while not committed(tmp_path / "run") and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the whole group
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err.decode()
    assert "run the same command again to go on" in err.decode()
    for _ in range(600):  # multiprocessing's own tracker ends a moment later
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process is still there")
