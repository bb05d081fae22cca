"""What is wrong with a user's function comes with its place, its options and what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.scenarios import load_scenario
from trilemma.scenarios.scenario_calls import called, made_with

BROKEN = """
def make():
    rows = []
    return rows[3]
"""


def made(size: int = 8) -> Scenario:
    data = torch.rand(size, 3), torch.arange(size) % 2
    return Scenario(nn.Linear(3, 2), nn.functional.cross_entropy, [data], data)


def test_a_scenario_comes_back() -> None:
    assert len(called(made, "made", {"size": 6}).records[0]) == 6


def test_an_error_has_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_hospital.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"IndexError: .*broken_hospital.py, line 4\)"):
        load_scenario("broken_hospital:make")


@pytest.mark.parametrize(
    ("returned", "meant"),
    [
        (None, "end with `return Scenario"),
        (nn.Linear(3, 2), "wrap the model"),
        ((1, 2, 3, 4), "with these values"),
        (Scenario, "call it"),
        (3, "got int; make a Scenario"),
    ],
)
def test_a_wrong_type_says_what_was_meant(returned: Any, meant: str) -> None:
    with pytest.raises(InvalidInput, match=meant):
        called(lambda: returned, "mine", {})


def test_options_are_named() -> None:
    with pytest.raises(InvalidInput, match="does not take clients, alpha: it takes size;"):
        called(made, "mine", {"clients": 3, "alpha": 0.1})
    with pytest.raises(InvalidInput, match="it takes no options"):
        called(lambda: made(), "mine", {"clients": 3})
    with pytest.raises(InvalidInput, match=r"does not take folder \(--data\)"):
        called(made, "mine", {"folder": "here"})
    with pytest.raises(InvalidInput, match="needs folder, which nothing gives"):
        called(lambda folder: made(), "mine", {})
    assert called(lambda **_: made(), "mine", {"clients": 3}).name == "scenario"


def test_a_scenario_is_tried_on_its_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    trial = Scenario._try_an_update

    def noted(scenario: Scenario) -> None:
        tried.append(scenario.device)
        trial(scenario)

    monkeypatch.setattr(Scenario, "_try_an_update", noted)
    assert made_with(made, "made", {"size": 6, "device": "cpu:0"}).device == "cpu:0"
    assert tried == ["cpu:0"]
    assert made().device == "cpu"


def test_another_device_than_it_was_made_on_is_tried_anew() -> None:
    """Of what it holds itself, a loss may have left something behind."""
    moved: list[bool] = []

    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if moved:
            raise RuntimeError("Expected all tensors to be on the same device")
        return nn.functional.cross_entropy(outputs, labels)

    data = torch.rand(8, 3), torch.arange(8) % 2
    given = Scenario(nn.Linear(3, 2), loss, [data], data)
    assert made_with(lambda: given, "mine", {"device": "cpu:0"}).device == "cpu:0"
    moved.append(True)
    with pytest.raises(InvalidInput, match="the loss cannot be computed"):
        made_with(lambda: given, "mine", {"device": "cpu:0"})


def test_a_scenario_made_of_another_is_made_on_the_device_that_was_asked_for() -> None:
    def outer() -> Scenario:
        return made_with(made, "made", {"size": 6})

    assert made_with(outer, "outer", {"device": "cpu:0"}).device == "cpu:0"
