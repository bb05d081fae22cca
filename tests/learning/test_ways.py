"""Recorded, vmapped and looped are one and the same to plain autograd on the module itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import grad, grad_and_value, jvp, vmap
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from trilemma.learning import LocalTraining, Task, Way, client_update, way_of

LOOPED = Way("looped")
INPUTS = torch.rand(4, 6, 3, generator=torch.Generator().manual_seed(1))
LABELS = torch.tensor([0, 1, 2, 1])


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM | nn.GRU | nn.RNN]) -> None:
        super().__init__()
        self.layer, self.last = kind(3, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(self.layer(x)[0][:, -1])
        return made


class Flat(nn.Module):
    """A linear layer, Tanh, and what a test asks for in between."""

    def __init__(self, between: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(18, 5), nn.Linear(5, 3)
        self.between = between
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(self.between(self.first, x.flatten(1)).tanh())
        return made


def counting(first: nn.Module, x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = first(x) * (2.0 if float(x.sum()) > 1e6 else 1.0)
    return made


def kept(first: nn.Module, x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = checkpoint(first, x, use_reentrant=False)
    return made


def far(first: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.cdist(first(x)[:, None], torch.eye(5, dtype=x.dtype)[None]).flatten(1)


def solved(first: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Least squares look at the rank of what they are given."""
    made = first(x)[:, :4].reshape(-1, 2, 2) + 2 * torch.eye(2, dtype=x.dtype)
    found = torch.linalg.lstsq(made, torch.ones_like(made)).solution
    return nn.functional.pad(found.flatten(1), (0, 1))


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "LSTM": (lambda: Recurrent(nn.LSTM), "looped"),
    "GRU": (lambda: Recurrent(nn.GRU), "looped"),
    "RNN": (lambda: Recurrent(nn.RNN), "looped"),
    "a number is read": (lambda: Flat(counting), "looped"),
    "checkpointed": (lambda: Flat(kept), "looped"),
    "plain": (lambda: Flat(lambda first, x: first(x)), "recorded"),
    "one derivative": (lambda: Flat(far), "recorded"),
    "least squares": (lambda: Flat(solved), "vmapped"),
}


def task_of(name: str) -> Task:
    torch.manual_seed(0)
    task = Task(MODELS[name][0](), cross_entropy, 3)
    return replace(task, way=way_of(task, INPUTS, LABELS))


def by_module(task: Task, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient as anybody would compute it, on a module that holds the weights itself."""
    own = copy.deepcopy(task.model)
    torch.nn.utils.vector_to_parameters(weights, own.parameters())
    cross_entropy(own(x), y).backward()  # type: ignore[no-untyped-call]
    return torch.cat(
        [parameter.grad.flatten() for parameter in own.parameters() if parameter.grad is not None]
    )


@pytest.mark.parametrize("name", MODELS)
def test_whatever_the_way_gradients_are_those_of_the_module(name: str) -> None:
    task = task_of(name)
    assert task.way.kind == MODELS[name][1]
    start = task.layout.flatten(dict(task.model.named_parameters())).detach()
    before = {key: value.clone() for key, value in task.model.state_dict().items()}
    each = task.way.vmap(task.way.grad(task.mean_loss), (None, 0, 0))
    for weights in (start, 0.5 * start):
        found = each(weights, INPUTS[:, None], LABELS[:, None])
        assert not found.requires_grad
        for row, x, y in zip(found, INPUTS, LABELS, strict=True):
            torch.testing.assert_close(row, by_module(task, weights, x[None], y[None]))
    after = task.model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "a number is read"])
def test_slopes_of_looped_updates_are_those_of_differences(name: str) -> None:
    """Two local steps at clients of their own, in the numbers that an attack would search over."""
    task = task_of(name)
    start = task.layout.flatten(dict(task.model.named_parameters())).detach().double()
    training = LocalTraining("fedavg", lr=0.3, steps=2, batch=2)
    draw = torch.Generator().manual_seed(2)
    mix = torch.randn(start.shape, generator=draw).double()
    along = torch.randn(INPUTS[:2].shape, generator=draw).double()

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return (client_update(task, start, x, LABELS[:2], training) * mix).sum()

    x = INPUTS[:2].double()
    gradient, value = task.way.grad_and_value(mixed)(x)
    ahead, behind = mixed(x + 1e-5 * along), mixed(x - 1e-5 * along)
    torch.testing.assert_close(
        (gradient * along).sum(), (ahead - behind) / 2e-5, rtol=1e-5, atol=0
    )
    torch.testing.assert_close(value, mixed(x))
    assert task.way.once == ""


def test_an_update_without_a_derivative_is_told() -> None:
    assert "'_cdist_backward' is not implemented" in task_of("one derivative").way.once


def test_looped_transforms_are_torchs() -> None:
    def value(at: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return (at["a"] * x).sin().sum() + at["b"].square().sum()

    at = {"a": torch.rand(5, 3), "b": torch.rand(5, 2)}
    x = torch.rand(4, 3)
    own, theirs = LOOPED.grad_and_value(value), grad_and_value(value)
    for found, expected in zip(
        LOOPED.vmap(LOOPED.vmap(own, (None, 0)), (0, None))(at, x),
        vmap(vmap(theirs, (None, 0)), (0, None))(at, x),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)

    def gradient_of_gradient(z: torch.Tensor, way: Any) -> torch.Tensor:
        made: torch.Tensor = way.grad(lambda y: (way.grad(lambda x: (x**3 * z).sum())(y)).sum())(z)
        return made

    z = torch.rand(3)
    torch.testing.assert_close(
        LOOPED.grad(lambda y: gradient_of_gradient(y, LOOPED).square().sum())(z),
        grad(lambda y: gradient_of_gradient(y, torch.func).square().sum())(z),
    )
    aux = LOOPED.grad(lambda y: (y.square().sum(), y + 1), has_aux=True)(z)
    torch.testing.assert_close(aux, (2 * z, z + 1))
    assert torch.equal(LOOPED.grad(lambda y: torch.ones(()))(z), torch.zeros(3))
    torch.testing.assert_close(LOOPED.jvp(torch.sin, z, x[0]), jvp(torch.sin, (z,), (x[0],))[1])
