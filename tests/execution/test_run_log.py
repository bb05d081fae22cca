"""run.log: what every process did in a folder, whatever became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

import trilemma
from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run, SettingsChanged
from trilemma.execution.run_log import RunLog


def events(folder: Path) -> list[str]:
    """The log without its times, which must be in UTC and in order."""
    lines = RunLog(folder).lines()
    times = [datetime.fromisoformat(line.partition(" ")[0]) for line in lines]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)
    return [line.partition(" ")[2] for line in lines]


def test_the_log_tells_what_every_process_did(tmp_path: Path) -> None:
    with Run.open(tmp_path, {"command": "tune"}) as run:
        run.commit("a", b"x")
        run.log.write("control\nfinished on 1 chunks")
    with pytest.raises(KeyboardInterrupt), Run.open(tmp_path, {"command": "tune"}):
        raise KeyboardInterrupt
    with pytest.raises(InvalidInput), Run.open(tmp_path, {"command": "tune"}):
        raise InvalidInput("budget must lie in (0, 1), got 2.")
    with pytest.raises(ValueError, match="a record"), Run.open(tmp_path, {"command": "tune"}):
        raise ValueError("a record: 0.1 0.2 0.3")
    with pytest.raises(SettingsChanged):
        Run.open(tmp_path, {"command": "pareto"})
    Run.open(tmp_path, {"command": "pareto"}, fresh=True).close()
    now = f"trilemma {trilemma.__version__} with torch {version('torch')}"
    assert events(tmp_path) == [
        f"{now}: tune started",
        "control finished on 1 chunks",
        "finished",
        f"{now}: tune resumed with 1 chunks",
        "interrupted",
        f"{now}: tune resumed with 1 chunks",
        "stopped: budget must lie in (0, 1), got 2.",
        f"{now}: tune resumed with 1 chunks",
        "failed: ValueError",
        f"{now}: pareto started over",
    ]


def test_the_log_survives_kill_minus_nine(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from trilemma.execution.journal import Run\n"
        "Run.open(sys.argv[1], {}).log.write('kept')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == -signal.SIGKILL
    assert events(tmp_path)[-1] == "kept"


def test_a_line_holds_nothing_that_a_terminal_obeys_and_strange_bytes_are_read(
    tmp_path: Path,
) -> None:
    RunLog(tmp_path).write("tune of \x1b[2J\u202egnp.exe\nfinished")
    assert events(tmp_path) == [r"tune of \x1b[2J\u202egnp.exe finished"]
    with (tmp_path / "run.log").open("ab") as file:
        file.write(b"\xff\xfe\n")
    assert len(RunLog(tmp_path).lines()) == 2
