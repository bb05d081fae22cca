"""`trilemma paper` as one of its authors meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_common_options import OWN, run

from trilemma.attacks import DLG
from trilemma.paper_framework.paper_result import Paper

SMALL = ("--scenario", f"{OWN}:small", "--clients", "2", "--models", "2", "--attempts", "2")


@pytest.mark.slow
def test_one_command_gives_constants_optima_and_measurements(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    code, out, err = run(capsys, monkeypatch, "paper", *SMALL, "--out", str(folder))
    assert code == 0, err
    assert max(len(line) for line in out.splitlines()[:-4]) <= 80
    said = " ".join(out.split())
    for part in (
        "Algorithm 3, by datum", "Algorithm 4, by class", "prior f_D", "sigmas floored",
        "as printed", "as corrected", "with a tight TV", "ε_p measured", "ε_u measured",
        "ε_e measured", "cannot be run", "No guarantee", "M = 2, R = 20, T = 2",
    ):  # fmt: skip
        assert part in said
    assert "paper: Algorithms 2 to 4: 8 attacks on unprotected updates, M = 2, T = 2" in err
    for name in ("paper.json", "report.html", "figures/trade-off.svg", "figures/trade-off.png"):
        assert (folder / name).stat().st_size > 1000
    found = Paper.load(folder)
    assert {(row.optimum.mechanism, row.optimum.form) for row in found.rows} == {
        ("randomization", "printed"), ("randomization", "corrected"), ("randomization", "tight"),
        ("paillier", "printed"), ("paillier", "corrected"),
        ("secret-sharing", "printed"), ("secret-sharing", "corrected"),
        ("compression", "printed"), ("compression", "corrected"),
    }  # fmt: skip
    for row in found.rows:
        assert (row.measured is None) is (row.optimum.mechanism == "paillier")
        if row.measured is not None:
            assert row.measured.units == 60
            assert row.measured.utility_loss is not None
            assert row.measured.efficiency_reduction is not None


@pytest.mark.slow
def test_json_is_the_file_and_one_form_is_one_row_a_mechanism(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    words = [*SMALL, "--form", "corrected", "--utility-weight", "1,2", "--max-cost", "0.5"]
    code, out, _ = run(capsys, monkeypatch, "paper", *words, "--json", "--out", str(folder))
    assert code == 0
    document = json.loads(out)
    assert document == json.loads((folder / "paper.json").read_text())
    assert [row["optimum"]["mechanism"] for row in document["rows"]] == [
        "randomization", "paillier", "secret-sharing", "compression",
    ]  # fmt: skip
    assert document["utility_weight"] == [1.0, 2.0]
    assert document["max_cost"] == 0.5


def test_an_attack_that_recovers_nothing_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = [*SMALL, "--success", "psnr:300", "--out", str(tmp_path / "run")]
    code, out, err = run(capsys, monkeypatch, "paper", *words)
    assert (code, out) == (2, "")
    assert "recovered 0% of the unprotected records" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget", "2"], "strictly between 0 and 1, got 2.0"),
        (["--models", "0"], "units must be at least 1, got 0"),
        (["--attempts", "0"], "attempts must be at least 1"),
        (["--utility-weight", "1,2,3"], "utility_weight has 3 entries for 2 clients"),
        (["--success", "mse:1"], "mse"),
        (["--workers", "2"], "No such option"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    code, out, err = run(capsys, monkeypatch, "paper", *SMALL, *words, "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert sentence in err.splitlines()[-1]


def test_ctrl_c_is_clean(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DLG, "__call__", interrupted)
    code, out, err = run(capsys, monkeypatch, "paper", *SMALL, "--out", str(tmp_path / "run"))
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "trilemma: interrupted; nothing is kept of it."
    assert not (tmp_path / "run" / "paper.json").exists()
