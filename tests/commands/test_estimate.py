"""`trilemma estimate` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.commands.test_measuring import OWN, run

from trilemma.attacks import DLG, Reconstructions, View
from trilemma.work.log import RunLog


def test_estimate_prints_json_resumes_and_refuses_other_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["estimate", "--scenario", f"{OWN}:small", "--clients", "2", "--json"]
    words += ["--out", str(tmp_path / "run"), "--restarts", "2"]
    code, out, err = run(capsys, monkeypatch, *words, "--units", "39")
    document = json.loads(out)
    assert code == 0
    assert document["units"] == 40  # rounded up to as many for each client
    assert document["c1"]["low"] <= document["c1"]["value"] <= document["c1"]["high"]
    assert document["success"]["value"] > 0.9
    assert {"c1_max", "kappa", "xi", "c2", "clients"} <= document.keys()
    assert "attack on control updates: 0 of 40 updates\n" in err
    assert "40 of 40 updates, " in err
    assert json.loads((tmp_path / "run" / "estimate.json").read_text()) == document
    code, out, err = run(capsys, monkeypatch, *words, "--units", "40")
    assert (code, json.loads(out)) == (0, document)
    assert "updates/s" not in err, "nothing was left to attack"
    code, _, err = run(capsys, monkeypatch, *words, "--units", "50")
    assert code == 2
    assert "units 20 there, 25 here" in err


def test_estimate_prints_a_table_and_the_literal_reading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--scenario", f"{OWN}:small", "--units", "8", "--restarts", "1", "--literal"]
    code, out, err = run(capsys, monkeypatch, "estimate", *words, "--models", "2")
    assert code == 0
    for part in ("C1 (mean over clients)", "kappa", "not finite", "Literal reading", "2 models"):
        assert part in " ".join(out.split())
    assert "run folder runs/estimate-tests.commands.own_scenario-small-" in err
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["estimate", "--scenario", f"{OWN}:small", "--units", "96", "--restarts", "1"]
    words += ["--out", str(tmp_path / "run"), "--json"]
    real, calls = DLG.__call__, []

    def interrupted(self: DLG, views: Sequence[View], **effort: int) -> Reconstructions:
        calls.append(len(views))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, views, **effort)

    monkeypatch.setattr(DLG, "__call__", interrupted)
    code, out, err = run(capsys, monkeypatch, *words)
    assert code == 130
    assert out == ""
    assert "run the same command again to go on" in err
    code, out, err = run(capsys, monkeypatch, *words)
    assert code == 0
    assert json.loads(out)["units"] == 96
    assert calls == [32, 32, 32, 32], "two chunks were kept, and the third was attacked again"
    log = [line.partition(" ")[2] for line in RunLog(tmp_path / "run").lines()]
    assert log[1] == "interrupted"
    assert log[2].endswith("estimate resumed with 2 chunks")
    assert log[3] == "attack on control updates finished on 3 chunks"
    assert log[4:] == ["finished"]


def test_the_federation_is_that_of_the_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    own = f'scenario = "{OWN}:small"\nclients = 3\nseed = 7\nrestarts = 1\nbudget = 0.2\n'
    (tmp_path / "trilemma.toml").write_text(own)
    code, out, err = run(capsys, monkeypatch, "estimate", "--units", "3")
    assert code == 0, err
    said = " ".join(out.split())
    assert said.startswith("small: 3 updates of 1 records from 3 clients (fedsgd)")
    assert "best of 1, seed 7" in said
