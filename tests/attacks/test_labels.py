"""Labels read off an update: exact for single records, counts for batches, class weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import View
from trilemma.attacks.labels import infer_labels, nearest_labels
from trilemma.attacks.matching import ViewTensors
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems


Maker = Callable[..., "Problems"]


def test_labels_of_single_records_are_exact_with_and_without_bias(problems: Maker) -> None:
    made = problems(40)
    units = ViewTensors.of(made.views, "double")
    labels = infer_labels(units, 0)
    assert labels is not None
    assert torch.equal(labels, made.labels)
    no_bias = Task(
        nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10, bias=False)),
        cross_entropy,
        10,
    )
    made = problems(40, task=no_bias)
    labels = infer_labels(ViewTensors.of(made.views, "double"), 0)
    assert labels is not None
    assert torch.equal(labels, made.labels)


def test_label_counts_of_batches(problems: Maker) -> None:
    made = problems(40, training=LocalTraining(batch=4), warm_up=0)
    labels = infer_labels(ViewTensors.of(made.views, "double"), 0)
    assert labels is not None
    assert int((labels == made.labels.sort(1).values).all(1).sum()) >= 36


def test_label_counts_need_every_client_at_the_bias(problems: Maker) -> None:
    made = problems(20, clients=2, warm_up=0)
    shares = torch.zeros(2, 2410, dtype=torch.float64)
    shares[:, -10:] = 0.5
    rows = [with_weights(view, shares) for view in made.views]
    expected = infer_labels(ViewTensors.of(made.views, "double"), 0)
    assert expected is not None
    found = infer_labels(ViewTensors.of(rows, "double"), 0)
    assert found is not None
    assert torch.equal(found, expected)
    shares[1, -1] = 0.0
    assert infer_labels(ViewTensors.of(rows, "double"), 0) is None


def with_weights(view: View, shares: torch.Tensor) -> View:
    return dataclasses.replace(
        view, observation=dataclasses.replace(view.observation, weights=shares)
    )


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(torch.tensor([0.1, 4.0, 1.0])),
        nn.CrossEntropyLoss(torch.tensor([2.0, 0.5, 7.0])),
    ],
    ids=["even", "rare", "frequent"],
)
def test_all_counts_are_told_under_class_weights(loss: nn.Module) -> None:
    """Every batch of four of three classes, at a model whose predictions are known exactly."""
    task = Task(nn.Linear(2, 3), loss, 3)
    weights = torch.cat([torch.zeros(6), torch.tensor([0.3, -0.2, 0.1])]).double()
    batches = torch.combinations(torch.arange(3), 4, with_replacement=True)
    inputs = torch.rand(4, 2, generator=torch.Generator().manual_seed(0)).double()
    training, spec = LocalTraining(batch=4), InputSpec((2,), 0.0, 1.0)
    views = [
        View(
            task,
            weights,
            Observation(client_update(task, weights, inputs, labels, training)),
            training,
            spec,
        )
        for labels in batches
    ]
    found = infer_labels(ViewTensors.of(views, "double"), 0)
    assert found is not None
    assert torch.equal(found, batches)


def test_the_likeliest_sets_of_labels_are_those_nearest_to_what_is_expected() -> None:
    """Against all counts that an exchange of one record makes of the best."""
    expected = torch.tensor([[2.3, 1.1, 0.6], [1.3, 1.6, 1.1]])
    found = nearest_labels(expected, 4, 4)
    assert found.shape == (2, 4, 4)
    for row, sets in zip(expected, found, strict=True):
        counts = torch.stack([torch.bincount(item, minlength=3) for item in sets])
        far = (counts - row).square().sum(1)
        assert bool((far.diff() >= -1e-6).all())
        best = counts[0]
        near = [
            float((torch.bincount(torch.tensor(combination), minlength=3) - row).square().sum())
            for combination in combinations_with_replacement(range(3), 4)
            if (torch.bincount(torch.tensor(combination), minlength=3) - best).abs().sum() <= 2
        ]
        torch.testing.assert_close(far, torch.tensor(sorted(near)[:4]))
