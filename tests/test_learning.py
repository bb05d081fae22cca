from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss, nll_loss

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update


def make(seed: int = 0) -> tuple[Task, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3))
    task = Task(model, cross_entropy, classes=3)
    weights = task.layout.flatten({n: p.detach() for n, p in model.named_parameters()})
    return task, weights, torch.randn(6, 4), torch.randint(0, 3, (6,))


def test_fedsgd_is_autograds_gradient() -> None:
    task, weights, inputs, targets = make()
    loss = cross_entropy(task.model(inputs), targets)
    gradients = torch.autograd.grad(loss, list(task.model.parameters()))
    expected = torch.cat([g.reshape(-1) for g in gradients])
    ours = client_update(task, weights, inputs, targets, LocalTraining(batch=6))
    assert torch.allclose(ours, expected, atol=1e-7)


@pytest.mark.parametrize("records", [None, 6])
def test_fedavg_is_torch_sgd(records: int | None) -> None:
    task, weights, inputs, targets = make()
    setting = LocalTraining("fedavg", lr=0.3, steps=4, batch=2, records=records)
    size = setting.unit_size
    optimiser = torch.optim.SGD(task.model.parameters(), lr=0.3)
    for step in range(4):
        rows = [(step * 2 + i) % size for i in range(2)]
        optimiser.zero_grad()
        loss = cross_entropy(task.model(inputs[rows]), targets[rows])
        torch.autograd.backward(loss)
        optimiser.step()
    after = torch.cat([p.detach().reshape(-1) for p in task.model.parameters()])
    ours = client_update(task, weights, inputs[:size], targets[:size], setting)
    assert torch.allclose(ours, weights - after, atol=1e-6)


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


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'fedprox'"):
        LocalTraining("fedprox")  # type: ignore[arg-type]  # the point
    with pytest.raises(InvalidInput, match="lr"):
        LocalTraining(lr=math.nan)
    with pytest.raises(InvalidInput, match="steps"):
        LocalTraining("fedavg", steps=0)
    with pytest.raises(InvalidInput, match="use algorithm='fedavg'"):
        LocalTraining("fedsgd", steps=2)
    with pytest.raises(InvalidInput, match="at least one batch"):
        LocalTraining("fedavg", batch=4, records=3)
