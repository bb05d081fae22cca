"""The command line: help, mistakes in one sentence with exit code 2, nothing for a bare call."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.running import here

import trilemma
from trilemma.cli.main import main

COMMANDS = (
    *("attack", "check", "estimate", "explain", "figures", "keys", "new", "pareto", "report"),
    *("prove", "runs", "solve", "tune"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_or_says_what_it_makes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = here(monkeypatch, capsys, command, "--help")
    assert (code, err) == (0, "")
    assert command in out
    assert "Example" in out or command == "keys"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tnue",), "No such command 'tnue'"),
        (("tune", "--bugdet", "1"), "No such option"),
        (("tune", "--budget", "much"), "'much' is not a valid float"),
        (("tune", "--knows", "\x1b[31m"), "\\x1b[31m"),
        (("report",), "Missing argument"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    words: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = here(monkeypatch, capsys, *words)
    assert (code, out) == (2, "")
    (said,) = err.splitlines()
    assert said.startswith("trilemma: ")
    assert sentence in said
    assert "\x1b" not in said


def test_a_bare_call_shows_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = here(monkeypatch, capsys)
    assert code == 2
    assert "tune" in out + err


def test_an_error_in_a_users_model_is_told_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("tune", "--scenario", "tests.cli.own_scenario:fails_later")
    code, out, err = here(monkeypatch, capsys, *words, "--out", str(tmp_path / "run"))
    assert (code, out) == (2, "")
    said = [line for line in err.splitlines() if not line.startswith("tune:")]
    assert len(said) == 1
    assert "ArithmeticError: odd values; " in said[0]
    assert "own_scenario.py, line " in said[0]


def test_debug_shows_every_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("attack", "--scenario", "tests.no_such_module:make", "--debug")
    code, _, err = here(monkeypatch, capsys, *words)
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert "ModuleNotFoundError" in err
    assert "Traceback" not in here(monkeypatch, capsys, *words[:-1])[2]


def test_the_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(monkeypatch, capsys, "--version")
    assert (code, out) == (0, f"trilemma {trilemma.__version__}\n")


@pytest.mark.parametrize("command", ["attack", "check", "estimate", "pareto", "tune"])
def test_the_first_line_says_what_is_being_read(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = "tests.cli.own_scenario:returns_nan"
    flag = [] if command == "check" else ["--scenario"]
    monkeypatch.setattr(sys, "argv", ["trilemma", command, *flag, scenario])
    with pytest.raises(SystemExit):
        main()
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == f"{command}: reading {scenario}"
    assert last.startswith("trilemma: the model returns NaN")
