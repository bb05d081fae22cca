"""`trilemma estimate` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.test_common_options import OWN, run

from trilemma.attacks import DLG, Reconstructions, View
from trilemma.execution.run_log import RunLog


def test_estimate_prints_json_resumes_and_refuses_other_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["estimate", "--scenario", f"{OWN}:small", "--clients", "2", "--json"]
    words += ["--out", str(tmp_path / "run"), "--attempts", "3"]
    code, out, err = run(capsys, monkeypatch, *words, "--models", "20")
    document = json.loads(out)
    assert code == 0
    assert (document["models"], document["attempts"], document["clients"]) == (20, 3, 2)
    assert document["recovered"] > 0.9
    assert 0.9 < document["by_datum"]["c1"] <= 1
    assert {"xi", "c2", "c2_smoothed", "prior", "observed"} <= document["by_class"].keys()
    assert "attack on control updates: 0 of 40 updates\n" in err
    assert "40 of 40 updates, " in err
    assert json.loads((tmp_path / "run" / "estimate.json").read_text()) == document
    code, out, err = run(capsys, monkeypatch, *words, "--models", "20")
    assert (code, json.loads(out)) == (0, document)
    assert "updates/s" not in err, "nothing was left to attack"
    code, _, err = run(capsys, monkeypatch, *words, "--models", "25")
    assert code == 2
    assert "units 20 there, 25 here" in err


def test_what_it_writes_is_what_solve_reads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = str(tmp_path / "small.npz")
    words = ["estimate", "--scenario", f"{OWN}:small", "--clients", "2", "--models", "2"]
    words += ["--attempts", "2", "--out", str(tmp_path / "run"), "--json", "--profile", file]
    code, out, _ = run(capsys, monkeypatch, *words)
    assert code == 0
    found = json.loads(out)["by_datum"]
    code, out, _ = run(
        capsys, monkeypatch, "solve", "--budget", "0.3", "--profile", file, "--json"
    )
    assert code == 0
    solved = json.loads(out)
    assert (solved["c1"], solved["c2"]) == (found["c1"], found["c2"] or found["c2_smoothed"])
    assert solved["clients"] == 2
    for result in solved["results"]:
        assert result["surrogate_leakage"] == pytest.approx(0.3, abs=1e-6)


def test_estimate_prints_a_table_and_the_literal_reading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--scenario", f"{OWN}:small", "--models", "2", "--attempts", "2", "--literal"]
    code, out, err = run(capsys, monkeypatch, "estimate", *words)
    assert code == 0
    for part in ("Algorithm 3, by datum", "Algorithm 4, by class", "C1 of each client",
                 "By the letter of Algorithm 3"):  # fmt: skip
        assert part in " ".join(out.split())
    assert "run folder runs/estimate-tests.cli.own_scenario-small-" in err
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["estimate", "--scenario", f"{OWN}:small", "--models", "48", "--attempts", "1"]
    words += ["--clients", "2", "--out", str(tmp_path / "run"), "--json"]
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
    assert json.loads(out)["models"] == 48
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
    code, out, err = run(capsys, monkeypatch, "estimate", "--models", "1", "--attempts", "1")
    assert code == 0, err
    said = " ".join(out.split())
    assert said.startswith("small: 3 updates of 1 records from 3 clients (fedsgd)")
    assert "best of 1, seed 7" in said
