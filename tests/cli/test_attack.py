"""`trilemma attack` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_common_options import OWN, run


def test_attack_compares_with_its_control_and_draws_only_what_may_be_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["attack", "--attack", "dlg", "--units", "6", "--restarts", "1", "--protection"]
    words += ["randomization:variance=4", "--batch", "1", "--clients", "2"]
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    code, out, _ = run(capsys, monkeypatch, *words, "--scenario", "digits", "--out", str(shown))
    assert code == 0
    assert "none (control)" in out
    assert "recoveries.png" in out
    assert (shown / "recoveries.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    document = json.loads((shown / "attack.json").read_text())
    assert document["control"]["success"]["value"] == 1.0
    assert document["protected"]["success"]["value"] == 0.0
    assert not document["attack_failed"]
    own = ["--scenario", f"{OWN}:small", "--out", str(hidden)]
    code, out, _ = run(capsys, monkeypatch, *words, *own)
    assert code == 0
    assert "does not set show_records" in out
    assert not (hidden / "recoveries.png").exists()


def test_a_bad_protection_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("attack", "--attack", "dlg", "--protection", "noise:variance=1")
    for some in (words, (words[0], *words[3:])):
        code, _, err = run(capsys, monkeypatch, *some)
        assert code == 2
        assert "unknown protection 'noise'" in err
    code, _, err = run(capsys, monkeypatch, *words)
    assert code == 2
    assert "unknown protection 'noise'" in err


def test_an_attack_that_fails_names_those_that_do_better(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["attack", "--attack", "tests.game.attackers:Useless", "--units", "4"]
    words += ["--scenario", f"{OWN}:small", "--out", str(tmp_path / "run")]
    code, out, err = run(capsys, monkeypatch, *words)
    assert code == 0, err
    assert "The attack failed here" in out
    assert "better here: " in out
    assert "analytic (8 of 8 right guesses)" in out
