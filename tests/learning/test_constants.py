"""Constants follow the weights into another precision."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from trilemma.learning import Task, traced
from trilemma.learning.constants import constants, converted


class Held(nn.Module):
    """A frozen layer, stored statistics, a matrix under two names, and a block under two more."""

    matrix: torch.Tensor
    again: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.norm = nn.BatchNorm1d(6).eval()
        self.norm.running_mean, self.norm.running_var = torch.randn(6), torch.rand(6) + 0.5
        self.register_buffer("matrix", torch.randn(6, 6))
        self.register_buffer("again", self.matrix)
        self.block = nn.Sequential(nn.Linear(6, 6).requires_grad_(False), nn.Sigmoid())
        self.other = self.block
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.frozen(x) @ self.matrix + x @ self.again)
        made: torch.Tensor = self.last(self.other(self.block(hidden)))
        return made


class Weighing(nn.Module):
    """A loss with class weights of its own, which cross-entropy takes in one precision alone."""

    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        each = cross_entropy(outputs, labels, weight=self.weight, reduction="none")
        return each.mean()


def flat(task: Task) -> torch.Tensor:
    return task.layout.flatten(dict(task.model.named_parameters())).detach()


def test_what_is_held_is_computed_with_in_the_precision_of_the_weights() -> None:
    torch.manual_seed(0)
    task, inputs, labels = Task(Held(), Weighing(), 3), torch.randn(4, 6), torch.arange(4) % 3
    before = {name: (id(item), item.clone()) for name, item in constants(task.model)}
    twin = Task(copy.deepcopy(task.model).double(), Weighing().double(), 3)
    weights, x = flat(task).double(), inputs.double()
    gradient = vmap(grad(task.mean_loss), (0, None, None))
    for _ in range(2):
        found = gradient(torch.stack([weights, 2 * weights]), x, labels)
        torch.testing.assert_close(found[1], grad(twin.mean_loss)(2 * weights, x, labels))
    assert torch.equal(task.outputs(flat(task), inputs), task.model(inputs))
    for name, item in constants(task.model):
        assert id(item) == before[name][0], "nothing is put in its place"
        assert item.dtype == before[name][1].dtype
        assert torch.equal(item, before[name][1])


def test_copies_are_made_once_and_outside_of_what_is_recorded() -> None:
    torch.manual_seed(0)
    task, inputs, labels = Task(Held(), cross_entropy, 3), torch.randn(4, 6), torch.arange(4) % 3
    example = flat(task).double(), inputs.double(), labels

    def gradient(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = grad(task.mean_loss)(at, x, y)
        return made

    run = traced(("gradient",), task, gradient, example)  # the first to ask for copies
    steps = run.steps  # type: ignore[attr-defined]
    assert not [step for step in steps if step.target is torch.ops.aten._to_copy.default]
    made = converted(task.model, torch.float32, torch.float64)
    assert made["matrix"] is made["again"]
    assert made["matrix"] is converted(task.model, torch.float32, torch.float64)["matrix"]
    assert traced(("gradient",), task, gradient, example) is run
    torch.testing.assert_close(run(*example), gradient(*example))
    task.model.get_buffer("matrix").mul_(2)
    assert torch.equal(
        converted(task.model, torch.float32, torch.float64)["matrix"], 2 * made["matrix"]
    )
    later = traced(("gradient",), task, gradient, example)
    assert later is not run
    assert not torch.allclose(later(*example), run(*example))
    torch.testing.assert_close(later(*example), gradient(*example))


def test_what_is_held_in_another_type_on_purpose_stays() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("count", torch.tensor(3))
    module.register_buffer("fine", torch.ones(2, dtype=torch.float64))
    module.register_buffer("plain", torch.ones(2))
    assert set(converted(module, torch.float32, torch.float64)) == {"plain"}
    assert converted(module, torch.float32, torch.float32) == {}
