"""The digits that come with scikit-learn, as a federation."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from trilemma.entropy import Seeded
from trilemma.game.prepared_models import fresh_weights
from trilemma.scenarios import load_scenario


@pytest.mark.parametrize(
    ("name", "parameters"), [("digits", 2410), ("digits-mlp", 2410), ("digits-lenet", 8026)]
)
def test_digits(name: str, parameters: int) -> None:
    scenario = load_scenario(name)
    assert scenario.task.layout.size == parameters
    assert (scenario.input_spec.low, scenario.input_spec.high) == (0.0, 1.0)
    assert scenario.classes == 10
    assert [len(r) for r in scenario.records] == [150] * 10
    assert len(scenario.test_records) == 297
    weights = fresh_weights(scenario, [0])
    assert weights.abs().max() <= 0.5
    assert weights.std().item() == pytest.approx(1 / 12**0.5, abs=0.01)


def test_digits_are_split_once_over_test_and_clients() -> None:
    scenario = load_scenario("digits", clients=3)
    everything = torch.cat([scenario.pooled().inputs, scenario.test_records.inputs]).flatten(1)
    assert len(everything) == 1797
    assert len(torch.unique(everything, dim=0)) == 1797


def test_the_digits_are_those_that_scikit_learn_gives() -> None:
    scenario, data = load_scenario("digits", clients=1, seed=4), load_digits()
    order = torch.from_numpy(Seeded(4).generator("split").permutation(1797))[:297]
    expected = torch.tensor(data.images, dtype=torch.float32)[order] / 16
    assert torch.equal(scenario.test_records.inputs[:, 0], expected)
    assert scenario.test_records.labels.tolist() == data.target[order].tolist()
