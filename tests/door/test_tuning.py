"""`trilemma.tune` from Python: names, functions, keywords, a folder, progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.commands.own_scenario import small
from tests.tuning.simulating import simulate

import trilemma
from trilemma.errors import InvalidInput

SETTINGS: dict[str, Any] = {
    "budget": 0.4,
    "families": ("randomization",),
    "seeds": 2,
    "strengths": 0,
}
NAME = "tests.commands.own_scenario:small"


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)


def test_scenario_function_and_name_give_one_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    first = trilemma.tune(small(), **SETTINGS)
    said = capsys.readouterr().err
    begins = "tune: begins with gaussian-posterior on unprotected updates over one round"
    assert said.splitlines()[:2] == ["tune: looking at the federation", begins]
    for given in (small, NAME):
        verdict = trilemma.tune(given, quiet=True, **SETTINGS)
        assert verdict.candidates == first.candidates
    assert capsys.readouterr().err == ""


def test_a_rate_instead_of_a_leakage() -> None:
    asked = {name: value for name, value in SETTINGS.items() if name != "budget"}
    verdict = trilemma.tune(small(), at_most="1 in 4", quiet=True, **asked)
    assert verdict.largest_success_rate == 0.25
    leakage = trilemma.bernoulli_leakage(0.25, verdict.claim.kappa)
    assert verdict.request.budget == pytest.approx(leakage, rel=0.05), "both are told"
    assert "in at most 25 of 100 cases" in verdict.headline
    with pytest.raises(InvalidInput, match="not both"):
        trilemma.tune(small(), at_most=0.2, budget=0.3)


def test_a_folder_keeps_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    verdict = trilemma.tune(small, out=folder, **SETTINGS)
    assert trilemma.Verdict.load(folder / "verdict.json") == verdict
    assert (folder / "report.html").exists()
    capsys.readouterr()
    again = trilemma.tune(small, out=folder, **SETTINGS)
    assert again.candidates == verdict.candidates
    assert "begins" not in capsys.readouterr().err, "nothing is measured again"


def test_the_front_door_can_be_listed() -> None:
    assert {"Scenario", "LocalTraining", "tune", "__version__"} <= set(dir(trilemma))
    assert trilemma.__version__.count(".") >= 1
