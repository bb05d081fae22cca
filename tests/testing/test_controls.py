from __future__ import annotations

import dataclasses

import pytest
import torch

from trilemma.attacks import Reconstructions
from trilemma.testing.controls import Control, Kind


def told(control: Control, inputs: torch.Tensor) -> Reconstructions:
    units = len(control.views)
    return Reconstructions(inputs[:, None], None, torch.zeros(units), torch.zeros(units).bool())


@pytest.mark.parametrize("kind", ["numbers", "table", "text"])
def test_the_truth_is_recovered_and_another_record_is_not(kind: Kind) -> None:
    control = Control.of(kind, 8, seed=0)
    assert control.recovered(told(control, control.inputs)) == 1.0
    assert control.recovered(told(control, control.inputs.roll(1, 0))) == 0.0


def test_words_may_be_found_in_any_order() -> None:
    control = Control.of("text", 5, seed=0)
    there = torch.zeros(5, 40).scatter(1, control.inputs, 1.0)
    found = dataclasses.replace(told(control, 0 * control.inputs), tokens=there)
    assert control.recovered(found) == 1.0
    there[0, control.inputs[0, 0]] = 0.0
    assert control.recovered(found) == 0.8


def test_a_table_has_whole_categories() -> None:
    inputs = Control.of("table", 6, seed=3).inputs
    assert torch.equal(inputs[:, 10:12].sum(1), torch.ones(6).double())
    assert torch.equal(inputs[:, 12:].sum(1), torch.ones(6).double())
