"""`trilemma report` and `trilemma figures`: files, a browser, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reporting import examples

from trilemma.execution.run_files import write_json

FIGURES = ("leakage", "costs", "front", "ranking")


def cli(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    from trilemma.cli.main import main

    monkeypatch.setattr("sys.argv", ["trilemma", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    examples.verdict().save(tmp_path / "verdict.json")
    return tmp_path


def test_report_writes_beside_the_verdict_and_opens_it(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    assert cli("report", str(run), monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"report: {run / 'report.html'}\n"
    assert opened == []
    assert cli("report", str(run / "verdict.json"), "--open", monkeypatch=monkeypatch) == 0
    assert opened == [(run / "report.html").as_uri()]
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_report_says_where_there_is_no_browser(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert cli("report", str(run), "--open", monkeypatch=monkeypatch) == 0
    assert "open the file yourself" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "figures"])
@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"schema_version": 99}'])
def test_bad_input_is_one_sentence_and_exit_code_2(
    command: str,
    text: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if text is not None:
        (tmp_path / "verdict.json").write_text(text)
    assert cli(command, str(tmp_path), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("trilemma: ")
    assert len(said.err.splitlines()) == 1


def test_a_verdict_of_an_earlier_schema_still_makes_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "verdict.json", examples.earlier())
    assert cli("report", str(tmp_path), monkeypatch=monkeypatch) == 0
    assert "must not be deployed" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert cli("figures", str(tmp_path), monkeypatch=monkeypatch) == 2
    assert "verdict of schema 2" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "figures"])
def test_somebodys_verdict_runs_no_code_unless_trusted(
    command: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run)
    Path(f"planted_{command}.py").write_text("open('ran', 'w').close()\n")
    verdict = json.loads(Path("verdict.json").read_text())
    Path("verdict.json").write_text(
        json.dumps(verdict | {"protection": f"planted_{command}:Noise"})
    )
    assert cli(command, "verdict.json", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert f"'planted_{command}:Noise' is named by the file" in said
    assert "--trust" in said
    assert not Path("ran").exists()
    assert cli(command, "verdict.json", "--trust", monkeypatch=monkeypatch) == 2, "it is no class"
    assert Path("ran").exists()
