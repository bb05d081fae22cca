"""`trilemma attack` and `trilemma estimate` as a user meets them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tests.cli.running import without_first_lines

from trilemma.cli.main import main
from trilemma.settings import Federated, run_folder

OWN = "tests.cli.own_scenario"


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["trilemma", *words])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, without_first_lines(err)


BAD = {
    "nan": (["--scenario", f"{OWN}:returns_nan"], "the model returns NaN"),
    "labels": (["--scenario", f"{OWN}:labels_out_of_range"], "labels of client 0 run from"),
    "infinite": (["--scenario", f"{OWN}:infinite_inputs"], "contain NaN or infinity"),
    "constant": (["--scenario", f"{OWN}:constant_inputs"], "nothing to recover"),
    "loss": (["--scenario", f"{OWN}:loss_differentiable_once"], "not twice differentiable"),
    "batch": (["--scenario", f"{OWN}:small", "--batch", "81"], "client 0 has 80 records"),
    "digits batch": (["--batch", "200"], "too few for 10 clients with 200 records"),
    "attack": (["--attack", "dgl"], "unknown attack 'dgl' (did you mean 'dlg'?)"),
    "scenario": (["--scenario", "digit"], "unknown scenario 'digit' (did you mean 'digits'?)"),
    "cuda": (["--device", "cuda"], "torch finds no CUDA GPU here"),
    "module": (["--scenario", "nowhere:make"], "cannot be imported"),
    "success": (["--success", "mse:25"], "tokens', got 'mse'"),
    "success number": (["--success", "psnr:high"], "written psnr:DECIBEL"),
    "small ssim": (["--success", "ssim:0.5", "--batch", "1"], "window of 11x11"),
    "models": (["--models", "0"], "units must be at least 1"),
    "workers": (["--workers", "0"], "workers must be at least 1"),
    "seed": (["--seed", "-1"], "seed must be a non-negative integer"),
    "alpha": (["--alpha", "-1"], "alpha (of the Dirichlet distribution) must be positive"),
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


def test_a_run_folder_has_a_name_that_the_system_takes(tmp_path: Path) -> None:
    folder = tmp_path / run_folder("tune", Federated(scenario="x" * 5000 + ":make"), {"seed": 0})
    folder.mkdir(parents=True)
    first, other = (run_folder("tune", Federated(scenario="a/b:c"), {"seed": n}) for n in (0, 1))
    assert first != other, "another run gets a folder of its own"
    assert first.parent == other.parent == Path("runs")
    assert first.name.startswith("tune-a-b-c-")
