"""`trilemma attack` without a name, as a user meets it: once with real attacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import here

from trilemma.cli.attack import Attacker

OWN = "tests.cli.own_scenario"


def test_all_attacks_of_a_rung(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["attack", "--scenario", f"{OWN}:shown", "--units", "8", "--restarts", "1"]
    words += ["--knows", "nothing", "--protection", "randomization:variance=10"]
    words += ["--out", str(tmp_path / "run")]
    code, out, err = here(monkeypatch, capsys, *words)
    assert code == 0, err
    assert err.startswith("attack: begins with ")
    assert "done: 64 games in" in err, "8 by each attack, with and without"
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    row = next(line for line in out.splitlines() if line.strip().startswith("analytic"))
    assert row.split()[2:5] == ["8", "of", "8"]
    assert "Protected: noise of variance 10." in out
    assert "original" in out, "a row of the table beside what attacks make of it"
    document = json.loads((tmp_path / "run" / "attack.json").read_text())
    found = {item["attack"]: item for item in document["attacks"]}
    assert set(found) == {"dlg", "inverting-gradients", "idlg", "analytic"}
    assert found["analytic"]["won"] == 8
    assert found["analytic"]["protected"] < 8
    code, out, err = here(monkeypatch, capsys, *words, "--json")
    assert json.loads(out) == document
    assert "begins" not in err, "nothing is played again"


def test_no_records_are_shown_unless_they_may_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["attack", "--scenario", f"{OWN}:small", "--units", "2", "--restarts", "1"]
    code, out, _ = here(monkeypatch, capsys, *words, "--out", str(tmp_path / "run"))
    assert code == 0
    assert "does not set show_records" in out
    assert "original" not in out


def test_the_federation_is_that_of_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "trilemma.toml"
    own = f'scenario = "{OWN}:small"\nclients = 3\nknows = "nothing"\nrestarts = 1\n'
    file.write_text(own + 'budget = 0.2\nfamilies = ["compression"]\nevaluations = 9\n')
    code, out, err = here(monkeypatch, capsys, "attack", "--units", "2")
    assert code == 0, err
    assert out.startswith("small: one update of 1 record is read by a server that knows nothing")
    found = json.loads(next(tmp_path.glob("runs/*/attack.json")).read_text())
    assert (found["scenario"], found["knows"]) == ("small", "nothing")
    code, _, err = here(monkeypatch, capsys, "attack", "--scenario", "digit")
    assert (code, "unknown scenario 'digit'" in err) == (2, True), "a flag wins"
    file.write_text("budgett = 0.2\n")
    code, _, err = here(monkeypatch, capsys, "attack")
    assert (code, "did you mean 'budget'?" in err) == (2, True)


def test_a_proof_is_against_anyone_whose_attacks_are_those_of_who_knows_most() -> None:
    for said in ("anyone", "the rest"):
        assert Attacker.model_validate({"knows": said}).knows == "rest"
