"""`trilemma attack` and `trilemma estimate` as a user meets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from trilemma.attacks import DLG, Reconstructions, View
from trilemma.cli import main
from trilemma.commands.measuring import run_folder
from trilemma.work.log import RunLog

OWN = "tests.commands.own_scenario"


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["trilemma", *words])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


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
    assert "attack on control updates: 0 of 40 units\n" in err
    assert "40 of 40 units, " in err
    assert json.loads((tmp_path / "run" / "estimate.json").read_text()) == document
    code, out, err = run(capsys, monkeypatch, *words, "--units", "40")
    assert (code, json.loads(out)) == (0, document)
    assert "units/s" not in err, "nothing was left to attack"
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


def test_attack_compares_with_its_control_and_draws_only_what_may_be_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ["attack", "--units", "6", "--restarts", "1", "--protection"]
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


BAD = {
    "nan": (["--scenario", f"{OWN}:returns_nan"], "the model returns NaN"),
    "labels": (["--scenario", f"{OWN}:labels_out_of_range"], "labels of client 0 run from"),
    "infinite": (["--scenario", f"{OWN}:infinite_inputs"], "contain NaN or infinity"),
    "constant": (["--scenario", f"{OWN}:constant_inputs"], "nothing to recover"),
    "loss": (["--scenario", f"{OWN}:loss_differentiable_once"], "not twice differentiable"),
    "batch norm": (["--scenario", f"{OWN}:batch_norm_in_training"], "train mode"),
    "batch": (["--scenario", f"{OWN}:small", "--batch", "81"], "client 0 has 80 records"),
    "digits batch": (["--batch", "200"], "too few for 10 clients with 200 records"),
    "attack": (["--attack", "dgl"], "unknown attack 'dgl' (did you mean 'dlg'?)"),
    "scenario": (["--scenario", "digit"], "unknown scenario 'digit' (did you mean 'digits'?)"),
    "cuda": (["--device", "cuda"], "torch finds no CUDA GPU here"),
    "module": (["--scenario", "nowhere:make"], "cannot be imported"),
    "success": (["--success", "mse:25"], "metric must be 'psnr' or 'ssim', got 'mse'"),
    "success number": (["--success", "psnr:high"], "written psnr:DECIBEL"),
    "small ssim": (["--success", "ssim:0.5", "--batch", "1"], "window of 11x11"),
    "units": (["--units", "0"], "units must be at least 1"),
    "workers": (["--workers", "0"], "workers must be at least 1"),
    "seed": (["--seed", "-1"], "seed must be a non-negative integer"),
    "alpha": (["--alpha", "-1"], "alpha (of the Dirichlet law) must be positive"),
    "option": (["--unit", "3"], "No such option"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_2(
    case: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    words, sentence = BAD[case]
    if case == "cuda" and torch.cuda.is_available():
        pytest.skip("a GPU is here")
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, monkeypatch, "estimate", *words)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_a_bad_protection_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(capsys, monkeypatch, "attack", "--protection", "noise:variance=1")
    assert code == 2
    assert "unknown protection 'noise'" in err


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


def test_a_run_folder_has_a_name_that_the_system_takes(tmp_path: Path) -> None:
    folder = tmp_path / run_folder("tune", "x" * 5000 + ":make", {"seed": 0})
    folder.mkdir(parents=True)
    assert run_folder("tune", "a/b:c", {}).parts == ("runs", "tune-a-b-c-44136fa3")
