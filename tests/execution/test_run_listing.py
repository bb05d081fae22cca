"""`list_runs` and `trilemma runs`: a damaged run is named, and hides no other."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from trilemma.cli.main import main
from trilemma.execution.journal import Run
from trilemma.execution.run_listing import list_runs

DEEP = "[" * 100_000
NAMES = ("a?b", "50%", "{x}", "two words", "#1", "a%20b")


def made(folder: Path, command: str = "tune") -> None:
    with Run.open(folder, {"command": command}) as run:
        run.commit("stage", b"payload")


def spoil(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        journal.execute(statement, values)


def runs(
    parent: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, list[str], str]:
    monkeypatch.setattr(sys, "argv", ["trilemma", "runs", str(parent)])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out.splitlines(), err


def test_runs_are_listed_whatever_their_folders_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        made(tmp_path / name)
    (tmp_path / "#1" / "verdict.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    found = {run.folder.name: run for run in list_runs(tmp_path)}
    assert sorted(tmp_path.rglob("*")) == before, "nothing is left beside a journal"
    assert set(found) == set(NAMES)
    assert all(
        (value.command, value.chunks, value.damage) == ("tune", 1, "") for value in found.values()
    )
    with Run.open(tmp_path / "{x}", {"command": "tune"}):
        code, out, err = runs(tmp_path, capsys, monkeypatch)
    assert (code, err, len(out)) == (0, "", len(NAMES))
    assert f"{tmp_path / '#1'}  tune  1 chunks  finished  verdict.json" in out
    assert f"{tmp_path / '{x}'}  tune  1 chunks  in use  -" in out
    assert f"{tmp_path / '50%'}  tune  1 chunks  can be resumed  -" in out


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE chunks SET payload = ?", b"other"),
        ("UPDATE chunks SET key = ?", "1e999"),
        ("UPDATE settings SET value = ?", "{ nonsense"),
        ("UPDATE settings SET value = ?", DEEP),
        ("UPDATE settings SET value = ?", "1e999"),
        ("UPDATE settings SET value = ?", "17"),
        ("UPDATE settings SET value = ?", b"\xff"),
        ("UPDATE settings SET value = ?", 5e-324),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_listed(
    statement: str,
    value: object,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a", "b", "c", "d"):
        made(tmp_path / name)
    for name in ("b", "d"):
        spoil(tmp_path / name, statement, value)
    (tmp_path / "e").mkdir()
    code, out, err = runs(tmp_path, capsys, monkeypatch)
    assert code == 2
    assert [line.split()[0] for line in out] == [str(tmp_path / name) for name in ("a", "c")]
    assert err.startswith("trilemma: ")
    assert len(err.splitlines()) == 1
    assert str(tmp_path / "b") in err
    assert err.rstrip().endswith(f"also damaged: {tmp_path / 'd'}.")
    assert len(err) < 600 + 3 * len(str(tmp_path))


def test_no_name_speaks_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "\x1b[2Jred", command="\x1b]0;owned\x07tune\nb")
    made(tmp_path / "\x1b[31mbad")
    spoil(tmp_path / "\x1b[31mbad", "UPDATE chunks SET key = ?", "\x1b[5m")
    code, out, err = runs(tmp_path, capsys, monkeypatch)
    assert code == 2
    assert (len(out), len(err.splitlines())) == (1, 1)
    assert (out[0] + err.rstrip("\n")).isprintable()
    assert r"\x1b[2Jred" in out[0]


def test_a_journal_without_tables_and_no_runs_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs(tmp_path, capsys, monkeypatch) == (0, [f"no runs in {tmp_path}"], "")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "journal.sqlite").touch()
    (listed,) = list_runs(tmp_path)
    assert (listed.command, listed.chunks, listed.damage) == ("?", 0, "")
    code, _, err = runs(tmp_path / "none", capsys, monkeypatch)
    assert (code, len(err.splitlines())) == (2, 1)
