from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.learning.small import make
from torch import nn
from torch.func import vmap
from torch.nn.functional import cross_entropy, mse_loss, nll_loss
from torch.nn.utils.parametrize import register_parametrization

from trilemma.learning import Task


def test_soft_labels_of_any_class_loss_equal_cross_entropys_own() -> None:
    task, weights, inputs, _ = make()
    soft = torch.softmax(torch.randn(6, 3), dim=1)

    def by_hand(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nll_loss(torch.log_softmax(outputs, dim=1), targets)

    other = Task(task.model, by_hand, classes=3)
    ours = other.mean_loss(weights, inputs, soft)
    assert torch.allclose(ours, task.mean_loss(weights, inputs, soft))


def test_regression_targets_are_passed_through() -> None:
    _, _, inputs, _ = make()
    model = torch.nn.Linear(4, 2)
    task = Task(model, mse_loss, classes=None)
    weights = task.layout.flatten({n: p.detach() for n, p in model.named_parameters()})
    targets = torch.randn(6, 2)
    assert torch.allclose(
        task.mean_loss(weights, inputs, targets), mse_loss(model(inputs), targets)
    )


class Centred(nn.Module):
    """A model in which a record's output depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.inner(inputs - inputs.mean(0))
        return outputs


def spread(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss of pairs of records."""
    return cross_entropy(outputs, labels) + torch.cdist(outputs, outputs.detach() + 1).mean()


@pytest.mark.parametrize(
    ("loss", "coupled"),
    [
        (cross_entropy, False),
        (nn.CrossEntropyLoss(label_smoothing=0.1), False),
        (nn.CrossEntropyLoss(torch.tensor([2.0, 2.0, 2.0])), False),
        (nn.CrossEntropyLoss(torch.tensor([2.0, 2.0, 2.1])), True),
        (nn.CrossEntropyLoss(ignore_index=2), True),
        (nn.CrossEntropyLoss(reduction="sum"), True),
        (spread, True),
    ],
)
def test_a_loss_that_is_no_mean_over_its_records_is_found(loss: Any, coupled: bool) -> None:
    task, _, inputs, _ = make()
    labels = torch.zeros(6, dtype=torch.long)  # one class alone would not tell
    assert Task(task.model, loss, 3).couples_records(inputs, labels) is coupled


def test_a_model_that_couples_its_records_is_found() -> None:
    _, _, inputs, labels = make()
    assert Task(Centred(), cross_entropy, 3).couples_records(inputs, labels)
    targets = torch.randn(6, 2)
    model = nn.Linear(4, 2)
    assert not Task(model, mse_loss, None).couples_records(inputs, targets)
    coupled = Task(model, lambda out, y: (out - y).norm(), None)
    assert coupled.couples_records(inputs, targets)


class Twice(nn.Module):
    """A block under two names, one of its layers under a third, and a weight that is tied."""

    def __init__(self) -> None:
        super().__init__()
        bent = nn.Linear(6, 6)
        register_parametrization(bent, "weight", nn.Tanh())
        self.first = nn.Sequential(bent, nn.Sigmoid())
        self.again = self.first
        self.last = nn.ModuleList([bent, nn.Linear(6, 6)])
        self.inner, self.tied = nn.Linear(6, 4), nn.Linear(6, 4)
        self.tied.weight = self.inner.weight
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        hidden = self.last[0](self.again(self.first(x)))
        made: torch.Tensor = self.inner(self.last[1](hidden)) + self.tied(x)
        return made


def test_what_has_several_names_is_one_and_stays_as_it_was() -> None:
    task, other = Task(Twice(), cross_entropy, 4), Twice()
    before = [parameter.clone() for parameter in task.model.parameters()]
    inputs = torch.randn(3, 6)
    weights = task.layout.flatten({n: p.detach() for n, p in other.named_parameters()})
    found = vmap(lambda at: task.outputs(at, inputs))(weights.expand(2, -1))
    torch.testing.assert_close(found[1], other(inputs))
    assert task.model.get_submodule("again") is task.model.get_submodule("first")
    for had, has in zip(before, task.model.parameters(), strict=True):
        assert type(has) is nn.Parameter, "what it computed with is taken out again"
        assert torch.equal(had, has)
