from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy, linear

from trilemma.learning import Products, RecordLoss, Task, record_gradients, written_out
from trilemma.learning import layer_products as file
from trilemma.learning.precision import whole_floats


class Twice(nn.Module):
    """One linear layer used twice, on every row of a record."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.tanh(self.inner(torch.tanh(self.inner(x))))
        return cast(torch.Tensor, self.last(made.mean(1)))


class Besides(nn.Module):
    """A weight that does more than its layer does with it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(torch.tanh(self.first(x.mean(1))))
        return made.mul(1 + self.first.weight.square().sum())


class ByHand(nn.Module):
    """The weight goes into the layer turned round, and a product of weights into another."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.randn(6, 3))
        self.two = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(torch.tanh(linear(x.mean(1), self.two @ self.two)), self.one.T)


def pictures(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


CASES: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "strides and padding": (pictures(nn.Conv2d(2, 4, 3, 2, 1), nn.Tanh()), (2, 7, 8), 2),
    "an oblong window": (
        pictures(nn.Conv2d(2, 4, (1, 3), (2, 1), (0, 2), (1, 2), bias=False), nn.Tanh()),
        (2, 6, 9),
        2,
    ),
    "one column": (pictures(nn.Conv2d(2, 5, 1, padding=1), nn.Tanh()), (2, 4, 4), 2),
    "padding by mirrors": (
        pictures(nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.Tanh()),
        (2, 5, 5),
        2,
    ),
    "groups": (pictures(nn.Conv2d(2, 4, 3, groups=2), nn.Tanh()), (2, 5, 5), 1),
    "padding by name": (pictures(nn.Conv2d(2, 4, 3, padding="same"), nn.Tanh()), (2, 5, 5), 1),
    "turned convolution": (pictures(nn.ConvTranspose2d(2, 3, 2), nn.Tanh()), (2, 4, 4), 1),
    "rows": (pictures(nn.Conv1d(5, 4, 3), nn.Tanh()), (5, 6), 1),
    "normalised": (pictures(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()), (2, 6, 6), 2),
    "used twice": (Twice(), (5, 6), 2),
    "used besides": (Besides(), (5, 6), 1),
    "by hand": (ByHand(), (5, 6), 0),
}


def made_of(name: str) -> tuple[Task, torch.Tensor, torch.Tensor, torch.Tensor, int]:
    model, shape, products = CASES[name]
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.randn(6, *shape, generator=draw), torch.arange(6) % 3
    model(inputs)
    task = Task(model, cross_entropy, 3)
    weights = 0.3 * torch.randn(task.layout.size, generator=draw)
    return task, weights, inputs, labels, products


def loss_of(task: Task) -> RecordLoss:
    def of(
        named: dict[str, torch.Tensor], scale: Any, x: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        factor: torch.Tensor = scale[0]
        return factor * task.loss_of(task.run(named, x[None]), y[None])

    return RecordLoss("of a test", of)


def plain(
    task: Task, weights: torch.Tensor, met: Any, inputs: torch.Tensor, labels: torch.Tensor
) -> dict[str, torch.Tensor]:
    each = vmap(grad(loss_of(task).of), (None, None, 0, 0))
    named: dict[str, torch.Tensor] = each(task.layout.unflatten(weights), met, inputs, labels)
    return named


@pytest.mark.parametrize("case", CASES)
def test_products_are_the_gradients_of_single_records(case: str) -> None:
    task, weights, inputs, labels, products = made_of(case)
    for scale in (1.0, 2.5):  # the second call knows the sites
        met = (torch.tensor(scale),)
        parts = record_gradients(task, loss_of(task), weights, met, inputs, labels)
        truth = plain(task, weights, met, inputs, labels)
        assert sum(isinstance(part, Products) for part in parts) == products
        for name, part in zip(task.layout.names, parts, strict=True):
            expected = truth[name].flatten(1)
            assert torch.allclose(written_out(part), expected, rtol=1e-4, atol=1e-6), name


def test_a_turn_is_taken_without_the_gradient() -> None:
    task, weights, inputs, labels, _ = made_of("strides and padding")
    met = (torch.tensor(1.0),)
    part = record_gradients(task, loss_of(task), weights, met, inputs, labels)[0]
    assert isinstance(part, Products)
    whole = plain(task, weights, met, inputs, labels)[task.layout.names[0]].flatten(2)
    left, right = torch.randn(4, 2), torch.randn(18, 5)
    assert torch.allclose(part.between(left, right), left.T @ whole @ right, atol=1e-5)
    assert torch.allclose(part.between(left), left.T @ whole, atol=1e-5)
    assert torch.allclose(part.between(right=right), whole @ right, atol=1e-5)


def test_a_batch_may_stand_for_a_record() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3, track_running_stats=False), nn.Tanh(),
        nn.Flatten(), nn.Linear(48, 3),
    )  # fmt: skip
    task, draw = Task(model, cross_entropy, 3), torch.Generator().manual_seed(1)
    weights = torch.randn(task.layout.size, generator=draw)
    inputs, labels = torch.randn(5, 4, 1, 4, 4, generator=draw), torch.randint(3, (5, 4))
    mean = RecordLoss("batch", lambda named, _, x, y: task.loss_of(task.run(named, x), y))
    parts = record_gradients(task, mean, weights, (), inputs, labels)
    for row in range(5):
        at = weights.clone().requires_grad_()
        (own,) = torch.autograd.grad(task.mean_loss(at, inputs[row], labels[row]), at)
        made = torch.cat([written_out(part)[row] for part in parts])
        assert torch.allclose(made, own, rtol=1e-4, atol=1e-6)


class Also(nn.Module):
    """Does more with its first weight, `how` says when."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.one, self.two = how, nn.Linear(6, 6), nn.Linear(6, 6)
        self.last, self.gate = nn.Linear(6, 3), nn.Parameter(torch.zeros(1))
        self.register_buffer("held", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.one(x))
        if self.how == "gated":
            hidden = hidden + self.gate * (hidden @ self.one.weight)
        elif self.how == "by a buffer":
            hidden = hidden + self.held * (hidden @ self.one.weight)  # type: ignore[operator]
        elif self.how == "by the record":
            hidden = hidden + (x[:, :1] > 0) * (hidden @ self.one.weight)
        elif self.how == "in training" and self.training:
            hidden = hidden + hidden @ self.one.weight
        elif self.how == "by itself":
            hidden = hidden + vmap(self.two)(x)
        elif self.how == "turned over":
            order = (self.one, self.two) if self.training else (self.two, self.one)
            hidden = order[1](torch.tanh(order[0](x)))
        return cast(torch.Tensor, self.last(hidden))


@pytest.mark.parametrize(
    "how",
    ["gated", "by a buffer", "by the record", "in training", "by itself", "turned over"],
)
def test_what_was_found_once_is_not_taken_for_granted(how: str) -> None:
    task, draw = Task(Also(how), cross_entropy, 3), torch.Generator().manual_seed(2)
    inputs, labels = torch.randn(6, 6, generator=draw), torch.arange(6) % 3
    inputs[:2, 0], inputs[2:, 0] = -1.0, 1.0
    met, weights = (torch.tensor(1.0),), torch.randn(task.layout.size, generator=draw)
    gate = list(task.layout.names).index("gate")
    start = sum(task.layout.sizes[:gate])
    weights[start] = 0.0
    task.model.eval()
    record_gradients(task, loss_of(task), weights, met, inputs, labels)
    weights[start] = 0.7
    task.model.train()
    task.model.get_buffer("held").fill_(1.0)
    parts = record_gradients(task, loss_of(task), weights, met, inputs, labels)
    truth = plain(task, weights, met, inputs, labels)
    for name, part in zip(task.layout.names, parts, strict=True):
        assert torch.allclose(written_out(part), truth[name].flatten(1), atol=1e-5), name


def test_a_small_term_of_the_loss_itself_is_kept() -> None:
    task, weights, inputs, labels, _ = made_of("used twice")
    small = loss_of(task)

    def of(named: Any, met: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sizes = [value.square().sum() for value in named.values()]
        return small.of(named, met, x, y) + 1e-4 * torch.stack(sizes).sum()

    met = (torch.tensor(1.0),)
    loss = RecordLoss("with a penalty", of)
    parts = record_gradients(task, loss, weights, met, inputs, labels)
    truth = vmap(grad(of), (None, None, 0, 0))(task.layout.unflatten(weights), met, inputs, labels)
    for name, part in zip(task.layout.names, parts, strict=True):
        assert torch.allclose(written_out(part), truth[name].flatten(1), atol=1e-6), name


def test_a_model_that_diverged_decides_nothing_for_the_next() -> None:
    task, weights, inputs, labels, products = made_of("strides and padding")
    met = (torch.tensor(1.0),)
    file._SITES.clear()
    nothing = torch.full_like(weights, torch.nan)
    parts = record_gradients(task, loss_of(task), nothing, met, inputs, labels)
    assert all(written_out(part).isnan().any() for part in parts)
    parts = record_gradients(task, loss_of(task), weights, met, inputs, labels)
    assert sum(isinstance(part, Products) for part in parts) == products


def test_tasks_are_told_apart_and_few_are_kept() -> None:
    file._SITES.clear()
    for _ in range(file._KEPT + 3):
        model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
        task = Task(model, cross_entropy, 3)
        weights = torch.randn(task.layout.size)
        inputs, labels = torch.randn(4, 6), torch.arange(4) % 3
        record_gradients(task, loss_of(task), weights, (torch.tensor(1.0),), inputs, labels)
    assert len(file._SITES) == file._KEPT


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("case", ["strides and padding", "normalised", "used twice"])
def test_a_gpu_replays_the_same_gradients(case: str) -> None:
    task, weights, inputs, labels, _ = made_of(case)
    there = Task(copy.deepcopy(task.model).cuda(), cross_entropy, 3)
    given = weights.cuda(), (torch.tensor(1.0).cuda(),), inputs.cuda(), labels.cuda()
    truth = plain(task, weights, (torch.tensor(1.0),), inputs, labels)
    with whole_floats(1):
        for _ in range(4):  # operation by operation, and from the third call on as a graph
            parts = record_gradients(there, loss_of(there), *given)
            for name, part in zip(task.layout.names, parts, strict=True):
                found, expected = written_out(part).cpu(), truth[name].flatten(1)
                assert torch.allclose(found, expected, rtol=1e-3, atol=1e-5), name
