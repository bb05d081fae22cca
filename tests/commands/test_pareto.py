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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.commands.test_tune import ROOT, committed, run, start

from trilemma.errors import InvalidInput
from trilemma.tuning.fronts.pareto import Front, front_schema
from trilemma.work.log import RunLog

QUICK = [
    *("--scenario", "tests.commands.own_scenario:small", "--units", "4"),
    *("--restarts", "1", "--rounds", "3", "--seeds", "2"),
    *("--mechanisms", "randomization,secret-sharing", "--evaluations", "4"),
]


def read(folder: Path) -> dict[str, Any]:
    text = (folder / "pareto.json").read_text()
    document: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    return document


def points(folder: Path) -> list[dict[str, Any]]:
    """The points without what a clock decides."""
    found: list[dict[str, Any]] = read(folder)["points"]
    for each in found:
        each.pop("efficiency_reduction")
        each.pop("seconds")
    return found


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "calm"
    code, out, err = run("pareto", *QUICK, "--out", str(folder))
    assert code == 0, err
    return folder, out


def test_the_text_and_the_file(calm: tuple[Path, str]) -> None:
    folder, out = calm
    assert max(len(line.rstrip()) for line in out.splitlines()[:-2]) <= 80
    for word in ("not a certificate", "mechanism", "leakage", "hypervolume", "knee"):
        assert word in out
    assert str(folder / "pareto.json") in out
    assert out.rstrip().endswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    document = read(folder)
    assert (document["schema_version"], document["evaluations"]) == (2, 4)
    assert document["reference"] == [1.0, 1.0, 1.0]
    assert len(document["points"]) == 5
    jsonschema.validate(document, front_schema())
    assert sorted(shlex.split(document["reproduce"])) == sorted(["trilemma", "pareto", *QUICK])
    assert Front.load(folder / "pareto.json").as_json() == document


def test_the_log_names_the_points(calm: tuple[Path, str]) -> None:
    log = "\n".join(RunLog(calm[0]).lines())
    assert "pareto started" in log
    assert re.search(r"trial 1, randomization at 0, finished on \d+ chunks", log)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "pareto.schema.json").read_text())
    assert published == front_schema(), "write front_schema() to docs/pareto.schema.json"


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "3", "no front of version 2"),
        (
            lambda text: text.replace('"schema_version": 2', '"schema_version": 1'),
            "of version 1, .* run the same trilemma pareto command again with --fresh",
        ),
        (lambda text: text.replace('"sampler": "grid"', '"sampler": "dice"'), "sampler"),
        (lambda text: text.replace('"knee"', '"need"'), "is wrong"),
    ],
)
def test_a_truncated_or_foreign_file_gets_one_sentence(
    calm: tuple[Path, str], tmp_path: Path, spoil: Any, word: str
) -> None:
    text = (calm[0] / "pareto.json").read_text()
    assert spoil(text) != text
    (tmp_path / "pareto.json").write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Front.load(tmp_path / "pareto.json")
    assert "\n" not in str(error.value)


def test_kill_9_resume_and_go_on(calm: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "rough"
    words = ["pareto", *QUICK, "--out", str(folder)]
    process = start(*words)
    while committed(folder) < 9 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = committed(folder)
    code, out, err = run(*words, "--evaluations", "5", "--json")
    assert code == 0, err
    assert committed(folder) > done >= 9
    assert json.loads(out) == read(folder)
    assert points(folder)[:5] == points(calm[0])
    assert len(points(folder)) == 6


@pytest.mark.parametrize(
    "words",
    [
        ["--evaluations", "0"],
        ["--units", "0"],
        ["--mechanisms", "noise"],
        ["--sampler", "random"],
        ["--storage", "nonsense"],
        ["--seeds", "1"],
        ["--workers", "0"],
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from trilemma.cli import main

    line = ["trilemma", "pareto", *QUICK, *words, "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", line)
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    lines = [line for line in said.err.splitlines() if not line.startswith("pareto:")]
    assert len(lines) == 1, said.err
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


def test_two_machines_share_a_study_in_postgresql(postgres: str, tmp_path: Path) -> None:
    words = ["pareto", *QUICK, "--storage", postgres]
    machines = [start(*words, "--out", str(tmp_path / name)) for name in ("one", "two")]
    for each in machines:
        _, err = each.communicate()
        assert each.returncode == 0, err
    code, out, err = run(*words, "--out", str(tmp_path / "one"), "--json")
    assert code == 0, err
    found = json.loads(out)
    assert 4 <= found["evaluations"] <= 5
    assert len(found["points"]) == found["evaluations"] + 1, "no point was measured twice"
    assert b"secret@" not in b"".join(path.read_bytes() for path in (tmp_path / "one").iterdir())
