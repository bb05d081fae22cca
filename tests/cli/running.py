"""Running the command line: here, or in a process of its own that may be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

__all__ = [
    *("ROOT", "committed", "comparable", "dies", "here", "nobody_is_left", "run", "start"),
    *("SCHEMAS", "require_schema", "without_first_lines"),
]

ROOT = Path(__file__).parents[2]
_COMMANDS = json.loads((ROOT / "docs" / "commands.schema.json").read_text())
_IN_FILES = {"tune": "verdict", "pareto": "pareto", "audit": "audit", "deploy": "deploy"}
SCHEMAS: dict[str, dict[str, Any]] = {
    name: {**own, "$defs": _COMMANDS["$defs"]} for name, own in _COMMANDS["properties"].items()
} | {
    name: json.loads((ROOT / "docs" / f"{file}.schema.json").read_text())
    for name, file in _IN_FILES.items()
}
"""What each command prints with --json, by its name."""
_READING = re.compile(r"^(attack|check|estimate|pareto|tune): reading .*\n", re.MULTILINE)
# A job in the background ignores Ctrl-C and hands that on to what it starts, such as a test.
_PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
from trilemma.cli.main import main
main()
"""
# No file may grow beyond this, as on a disk that is full; it binds root too.
_LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
"""
# Done inside the process, right after its own commit of that number: on a busy machine whoever
# watches the journal from outside comes too late, and finds that the run has ended.
_AFTER = """
import os, signal
from trilemma.execution.journal import Run
commit, commits = Run.commit, []
def counted(*given):
    commit(*given)
    commits.append(None)
    if len(commits) == {commits}:
        {deed}
Run.commit = counted
"""
_SIMULATED = """
from tests.tuning.simulating import Simulated
import trilemma.tuning.replication, trilemma.tuning.plan
trilemma.tuning.plan.JobRunner = trilemma.tuning.replication.JobRunner = Simulated
"""


def start(
    *words: str,
    room: int | None = None,
    simulated: bool = False,
    after: tuple[int, str] | None = None,
    cwd: Path = ROOT,
) -> subprocess.Popen[str]:
    """A process of its own, and of its own group, that runs `trilemma WORDS`.

    `after` is a number of commits and what the process then does, such as `dies(seconds)`.
    """
    before = (
        (_SIMULATED if simulated else "")
        + (_LIMITED.format(room=room) if room is not None else "")
        + (_AFTER.format(commits=after[0], deed=after[1]) if after is not None else "")
    )
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(before=before), *words],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def dies(seconds: float) -> str:
    """The kernel ends the process so much later, as kill -9 does: no line of it runs any more."""
    return f"signal.setitimer(signal.ITIMER_REAL, {max(seconds, 1e-6)})"


def run(
    *words: str, room: int | None = None, simulated: bool = False, cwd: Path = ROOT
) -> tuple[int, str, str]:
    """Exit code, output and errors of `trilemma WORDS`."""
    process = start(*words, room=room, simulated=simulated, cwd=cwd)
    out, err = process.communicate()
    return process.returncode, out, without_first_lines(err)


def here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str] | None, *words: str
) -> tuple[int, str, str]:
    """The same in this process."""
    from trilemma.cli.main import main

    handler = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["trilemma", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert signal.getsignal(signal.SIGINT) is handler
    out, err = ("", "") if capsys is None else capsys.readouterr()
    if "--json" in words and out:
        require_schema(words[0], json.loads(out))
    return int(end.value.code or 0), out, without_first_lines(err)


def require_schema(command: str, document: Any) -> None:
    """An object that a command printed is as docs describe it."""
    jsonschema.validate(document, SCHEMAS[command])


def nobody_is_left(process: subprocess.Popen[str]) -> None:
    """Of the process's group, whose last ones (multiprocessing's tracker) end a moment later."""
    for _ in range(600):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process is still there")


def without_first_lines(err: str) -> str:
    """What a command says besides that it is reading the scenario, which it does at once."""
    return _READING.sub("", err)


def committed(folder: Path) -> int:
    """Chunks in the journal of a run."""
    journal = folder / "journal.sqlite"
    if not journal.exists():
        return 0
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as reader:
        try:
            return int(reader.execute("SELECT COUNT(*) FROM chunks").fetchone()[0])
        except sqlite3.OperationalError:  # killed before the tables were made
            return 0


_MEASURED = {
    *("efficiency_reduction", "seconds", "train", "protect", "combine", "finish"),
    "data_hash",  # keyed: another folder, another hash
}


def comparable(folder: Path) -> dict[str, Any]:
    """The verdict and its gallery without what a clock or the folder's own key decides."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(item) for name, item in value.items() if name not in _MEASURED}
        return [without(item) for item in value] if isinstance(value, list) else value

    names = [name for name in ("verdict.json", "gallery.json") if (folder / name).exists()]
    return {name: without(json.loads((folder / name).read_text())) for name in names}
