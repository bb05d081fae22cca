"""`trilemma pareto`: a table, a file, resuming after kill -9, going on, bad input, PostgreSQL."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import committed, dies, here, run, start
from tests.tuning.simulating import simulate

from trilemma.execution.run_log import RunLog
from trilemma.tuning.results.pareto_front import Front

QUICK = [
    *("--scenario", "tests.cli.own_scenario:small", "--units", "4", "--seeds", "2"),
    *("--attacks", "gaussian-posterior", "--steps", "2", "--evaluations", "4"),
    *("--families", "randomization,secret-sharing"),
]


def read(folder: Path) -> dict[str, Any]:
    text = (folder / "pareto.json").read_text()
    document: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    return document


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "calm"
    code, out, err = run("pareto", *QUICK, "--out", str(folder), simulated=True)
    assert code == 0, err
    return folder, out


def test_the_text_and_the_file(calm: tuple[Path, str]) -> None:
    folder, out = calm
    assert max(len(line.rstrip()) for line in out.splitlines()[:-2]) <= 80
    for word in ("not a certificate", "leakage", "hypervolume", "knee"):
        assert word in out
    assert str(folder / "pareto.json") in out
    assert out.rstrip().endswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    front = Front.load(folder / "pareto.json")
    assert (front.evaluations, len(front.points)) == (4, 5)
    assert sorted(shlex.split(front.reproduce)) == sorted(["trilemma", "pareto", *QUICK])


def test_the_log_names_the_points(calm: tuple[Path, str]) -> None:
    log = "\n".join(RunLog(calm[0]).lines())
    assert "pareto started" in log
    assert re.search(r"trial 1, randomization at 0, finished on \d+ chunks", log)


@pytest.mark.slow
def test_kill_9_resume_and_go_on(calm: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "rough"
    words = ["pareto", *QUICK, "--out", str(folder)]
    process = start(*words, simulated=True, after=(9, dies(0)))
    process.communicate()
    assert process.returncode == -signal.SIGALRM
    done = committed(folder)
    code, out, err = run(*words, "--evaluations", "5", "--json", simulated=True)
    assert code == 0, err
    assert committed(folder) > done >= 9
    assert json.loads(out) == read(folder)
    assert read(folder)["points"][:5] == read(calm[0])["points"]
    assert len(read(folder)["points"]) == 6


def test_real_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once without simulation: games are played and rounds are timed."""
    words = ["pareto", *QUICK, "--evaluations", "2", "--claim", "one-round", "--candidates", "10"]
    code, _, err = here(monkeypatch, capsys, *words, "--out", str(tmp_path / "run"))
    assert code == 0, err
    bare, *_ = Front.load(tmp_path / "run" / "pareto.json").points
    assert (bare.family, bare.recovered, bare.units) == ("none", 4, 4)
    assert (bare.seconds or 0) > 0


@pytest.mark.parametrize(
    "words",
    [
        ["--evaluations", "0"],
        ["--units", "0"],
        ["--families", "noise"],
        ["--sampler", "random"],
        ["--storage", "nonsense"],
        ["--seeds", "1"],
        ["--workers", "0"],
        ["--budget", "0.3"],
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate(monkeypatch)
    line = ["pareto", *QUICK, *words, "--out", str(tmp_path / "run")]
    code, out, err = here(monkeypatch, capsys, *line)
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("pareto:")]
    assert len(lines) == 1, err
    assert lines[0].startswith("trilemma: ")


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of a server of our own; PostgreSQL refuses to run as root."""
    places = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    path = os.pathsep.join([os.environ.get("PATH", ""), *places])  # Debian's are not on the PATH
    programs = [shutil.which(name, path=path) for name in ("initdb", "pg_ctl")]
    if None in programs or importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs PostgreSQL's initdb and pg_ctl, and psycopg")
    initdb, pg_ctl = map(str, programs)
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # pytest's own is too long for a socket
    how: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
    if os.geteuid() == 0:
        how["user"] = "nobody"
        shutil.chown(folder, "nobody")
    data = folder / "data"
    layout = ["-D", str(data), "-E", "UTF8", "--no-locale", "--no-sync"]
    subprocess.run([initdb, *layout, "-U", "me", "-A", "trust"], **how)
    settings = f"-k {folder} -c listen_addresses=''"
    control = [pg_ctl, "-D", str(data), "-w", "-l", str(folder / "log")]
    try:
        subprocess.run([*control, "-o", settings, "start"], **how)
        yield f"postgresql+psycopg://me:secret@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **{**how, "check": False})
        shutil.rmtree(folder)


@pytest.mark.slow
def test_two_machines_share_a_study_in_postgresql(postgres: str, tmp_path: Path) -> None:
    words = ["pareto", *QUICK, "--storage", postgres]
    machines = [
        start(*words, "--out", str(tmp_path / name), simulated=True) for name in ("one", "two")
    ]
    for machine in machines:
        _, err = machine.communicate()
        assert machine.returncode == 0, err
    code, out, err = run(*words, "--out", str(tmp_path / "one"), "--json", simulated=True)
    assert code == 0, err
    found = json.loads(out)
    assert 4 <= found["evaluations"] <= 5
    assert len(found["points"]) == found["evaluations"] + 1, "no point was measured twice"
    assert b"secret@" not in b"".join(path.read_bytes() for path in (tmp_path / "one").iterdir())
