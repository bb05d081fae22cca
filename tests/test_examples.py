"""Examples in files of their own do what they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from trilemma.learning import client_update

EXAMPLES = Path(__file__).parents[1] / "examples"
PICTURES = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("resnet18", EXAMPLES / "resnet18.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_resnet18_has_the_parameters_of_the_one_for_cifar(example: Any) -> None:
    """Of BatchNorm's layers GroupNorm's have as many."""
    model = example.resnet18()
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_173_962
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.skipif(not PICTURES.is_dir(), reason="needs Debian's dataset-fashion-mnist")
def test_its_federation_makes_updates(example: Any) -> None:
    scenario = example.pictures(width=8)
    assert [len(record) for record in scenario.records] == [1200] * 5
    assert scenario.input_spec.shape == (3, 32, 32)
    batch = scenario.records[0][torch.arange(8)]
    weights = scenario.task.layout.flatten(dict(scenario.task.model.named_parameters()))
    update = client_update(
        scenario.task, weights.detach(), batch.inputs, batch.labels, scenario.local_training
    )
    assert update.shape == weights.shape
    assert 0 < float(update.norm()) < float("inf")
