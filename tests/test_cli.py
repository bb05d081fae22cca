"""The command line: help, mistakes in one sentence with exit code 2, nothing for a bare call."""

from __future__ import annotations

import pytest
from tests.commands.running import here

COMMANDS = ("attack", "estimate", "figures", "keys", "pareto", "report", "runs", "solve", "tune")


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
