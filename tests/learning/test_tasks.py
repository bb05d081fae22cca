from __future__ import annotations

import torch
from tests.learning.small import make
from torch.nn.functional import mse_loss, nll_loss

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
