"""`trilemma runs` lists what is in a folder, and a damaged run does not hide the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import here

from trilemma.execution.journal import JOURNAL, Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, command in (("done", "tune"), ("begun", "estimate")):
        with Run.open(tmp_path / name, {"command": command}) as run:
            run.commit("stage", b"payload")
    (tmp_path / "done" / "verdict.json").write_text("{}")
    return tmp_path


def test_runs_are_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = here(monkeypatch, capsys, "runs", str(folder))
    assert code == 0
    begun, done = out.splitlines()
    assert begun.split()[1:] == ["estimate", "1", "chunks", "can", "be", "resumed", "-"]
    assert done.split()[1:] == ["tune", "1", "chunks", "finished", "verdict.json"]


def test_a_run_in_use_is_said_to_be_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run.open(folder / "begun", {"command": "estimate"}):
        _, out, _ = here(monkeypatch, capsys, "runs", str(folder))
    assert "in use" in out.splitlines()[0]


def test_a_damaged_run_does_not_hide_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "begun" / JOURNAL).write_bytes(b"no database")
    code, out, err = here(monkeypatch, capsys, "runs", str(folder))
    assert code == 2
    assert "finished" in out
    (sentence,) = err.splitlines()
    assert "begun" in sentence


def test_no_runs_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here(monkeypatch, capsys, "runs", str(tmp_path))[:2] == (0, f"no runs in {tmp_path}\n")
    code, out, err = here(monkeypatch, capsys, "runs", str(tmp_path / "none"))
    assert (code, out) == (2, "")
    assert "is no folder" in err


def test_a_name_does_not_speak_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run.open(tmp_path / "\x1b[31mred", {"command": "tune"}) as run:
        run.commit("stage", b"payload")
    _, out, _ = here(monkeypatch, capsys, "runs", str(tmp_path))
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out
