"""Sums of clipped gradients, against one backward pass a record; none exceeds the clip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.learning import Task, Way, clipped_products, clipped_sums, clipping, forward_memory
from trilemma.learning.recurrent import unroll

WAYS = (Way(), Way("looped", "asked for"))
RECORDS = 12


class Words(nn.Module):
    """Embedding, norm, and one linear layer at six places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.inner(self.norm(self.embedding(words))))
        outputs: torch.Tensor = self.outer(hidden.mean(1))
        return outputs


class Tied(nn.Module):
    """One weight, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.outer(torch.tanh(self.inner(torch.tanh(self.inner(inputs)))))
        return outputs


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.outer = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.outer(self.cells(inputs)[0][:, -1])
        return outputs


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, bias=False),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), nn.Sigmoid(), nn.Linear(7, 3))


def unrolled() -> nn.Module:
    model = Recurrent()
    unroll(model)
    return model


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "perceptron": (perceptron, lambda: torch.randn(RECORDS, 5)),
    "convolutions": (convolutions, lambda: torch.randn(RECORDS, 1, 8, 8)),
    "words": (Words, lambda: torch.randint(0, 20, (RECORDS, 6))),
    "tied": (Tied, lambda: torch.randn(RECORDS, 5)),
    "recurrent": (unrolled, lambda: torch.randn(RECORDS, 5, 4)),
}


def made(model: nn.Module, way: Way = WAYS[0]) -> tuple[Task, torch.Tensor]:
    task = Task(model, cross_entropy, 3, way)
    return task, task.layout.flatten(dict(model.named_parameters())).detach()


def by_hand(
    model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, clip: float
) -> list[torch.Tensor]:
    """Each record's clipped gradient in double precision, by a backward pass of its own."""
    rows = []
    for x, y in zip(inputs, labels, strict=True):
        parameters = list(model.parameters())
        grads = torch.autograd.grad(cross_entropy(model(x[None]), y[None]), parameters)
        row = torch.cat([grad.flatten().double() for grad in grads])
        rows.append(row * min(1.0, clip / float(row.norm())))
    return rows


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", WAYS, ids=["vmapped", "looped"])
@pytest.mark.parametrize("clip", [0.05, 0.7, math.inf])
def test_sums_are_those_of_one_backward_pass_a_record(name: str, way: Way, clip: float) -> None:
    torch.manual_seed(4)
    model, inputs = MODELS[name][0](), MODELS[name][1]()
    labels, (task, weights) = torch.randint(0, 3, (RECORDS,)), made(model, way)
    shares = torch.rand(3, 4)
    shares[1, 2:] = 0.0
    given = inputs.view(3, 4, *inputs.shape[1:]), labels.view(3, 4), shares
    found = clipped_sums(task, weights, *given, clip)
    rows = torch.stack(by_hand(model, inputs, labels, clip)).view(3, 4, -1)
    expected = (shares[..., None] * rows).sum(1)
    assert torch.allclose(
        found.double(), expected, rtol=0, atol=1e-6 * float(expected.abs().max())
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", WAYS, ids=["vmapped", "looped"])
@pytest.mark.parametrize("clip", [0.05, 0.7, math.inf])
def test_inner_products_are_those_of_the_gradients_written_out(
    name: str, way: Way, clip: float
) -> None:
    torch.manual_seed(8)
    model, inputs = MODELS[name][0](), MODELS[name][1]()
    labels, (task, weights) = torch.randint(0, 3, (RECORDS,)), made(model, way)
    along = torch.randn(task.layout.size)
    inner, squares = clipped_products(task, weights, inputs, labels, along, clip)
    rows = torch.stack(by_hand(model, inputs, labels, clip))
    assert torch.allclose(inner, rows @ along.double(), rtol=0, atol=1e-5)
    assert torch.allclose(squares, rows.square().sum(1), rtol=1e-5)


def test_a_record_without_a_finite_gradient_has_no_products() -> None:
    torch.manual_seed(9)
    task, weights = made(perceptron())
    inputs, labels = torch.randn(3, 5), torch.zeros(3, dtype=torch.int64)
    inputs[1, 2] = math.inf
    found = clipped_products(task, weights, inputs, labels, torch.randn(len(weights)), 0.3)
    for values in found:
        assert torch.isfinite(values).all()
        assert values[1] == 0
        assert values[0] != 0


def test_many_records_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    model, inputs, labels = Words(), torch.randint(0, 20, (RECORDS, 6)), torch.randint(0, 3, (12,))
    task, weights = made(model)
    given = inputs.view(2, 6, 6), labels.view(2, 6), torch.ones(2, 6)
    whole = clipped_sums(task, weights, *given, 0.3)
    monkeypatch.setattr("trilemma.learning.clipping._WIDEST", 2 * 4 * weights.numel())
    assert torch.allclose(clipped_sums(task, weights, *given, 0.3), whole, atol=1e-6)


def test_a_model_that_vmap_refuses_is_summed_in_a_loop() -> None:
    torch.manual_seed(4)
    model, inputs, labels = Recurrent(), torch.randn(6, 5, 4), torch.randint(0, 3, (6,))
    task, weights = made(model, WAYS[1])
    found = clipped_sums(task, weights, inputs[None], labels[None], torch.ones(1, 6), 0.2)
    expected = torch.stack(by_hand(model, inputs, labels, 0.2)).sum(0)
    assert torch.allclose(found[0].double(), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["perceptron", "convolutions"])
@pytest.mark.parametrize("way", WAYS, ids=["vmapped", "looped"])
def test_a_record_without_a_finite_gradient_adds_nothing(name: str, way: Way) -> None:
    torch.manual_seed(5)
    model, inputs = MODELS[name][0](), MODELS[name][1]()
    task, weights = made(model, way)
    labels, shares = torch.randint(0, 3, (1, RECORDS)), torch.ones(1, RECORDS)
    without = torch.ones(1, RECORDS)
    without[0, [2, 5]] = 0.0
    expected = clipped_sums(task, weights, inputs[None], labels, without, 0.3)
    broken = inputs.clone()
    broken[2].view(-1)[0], broken[5].view(-1)[3] = math.nan, math.inf
    found = clipped_sums(task, weights, broken[None], labels, shares, 0.3)
    assert torch.isfinite(found).all()
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e6, 1e18, 3e37])
@pytest.mark.parametrize("name", ["perceptron", "convolutions", "words", "tied", "recurrent"])
@pytest.mark.parametrize("way", WAYS, ids=["vmapped", "looped"])
def test_no_contribution_exceeds_the_clip_at_crafted_weights(
    scale: float, name: str, way: Way
) -> None:
    """Each tensor is blown up or shrunk by itself, and one input besides."""
    torch.manual_seed(6)
    inputs = MODELS[name][1]()[:1]
    model = MODELS[name][0]()
    task, weights = made(model, way)
    crafted = []
    for tensor in task.layout.names:
        other = weights.clone()
        task.layout.unflatten(other)[tensor].mul_(scale)
        crafted.append((other, inputs))
    if inputs.is_floating_point():
        crafted.append((weights, inputs * scale))
    for label in (0, 2):
        for at, x in crafted:
            y, one = torch.tensor([[label]]), torch.ones(1, 1)
            for clip in (1e-3, 1.0):
                norm = float(clipped_sums(task, at, x[None], y, one, clip).double().norm())
                assert norm <= clip * (1 + 1e-6)


def test_removing_a_record_moves_the_sum_by_the_clip_at_most() -> None:
    torch.manual_seed(7)
    task, weights = made(perceptron())
    inputs, labels = 30 * torch.randn(1, RECORDS, 5), torch.randint(0, 3, (1, RECORDS))
    shares = torch.full((1, RECORDS), 1 / RECORDS)
    whole = clipped_sums(task, weights, inputs, labels, shares, 0.25)
    moved = []
    for record in range(RECORDS):
        without = shares.clone()
        without[0, record] = 0.0
        rest = clipped_sums(task, weights, inputs, labels, without, 0.25)
        moved.append(float((whole - rest).double().norm()))
    assert max(moved) <= 0.25 / RECORDS * (1 + 1e-4)
    assert max(moved) >= 0.25 / RECORDS * (1 - 1e-4), "some gradient is longer than the clip"


class Body(torch.nn.Module):
    """A wide frozen body, and a head of a few numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 4096), torch.nn.Linear(4096, 2, bias=False)
        self.first = torch.nn.Linear(4, 4)
        for layer in (self.body, self.head):
            layer.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(self.first(x)).tanh())
        return scores


def test_a_record_that_is_a_view_of_many_holds_what_it_does_alone() -> None:
    model = torch.nn.Linear(784, 10)
    held = []
    for pool in (1, 1000):
        task = Task(model, torch.nn.functional.cross_entropy, 10)
        weights = task.layout.flatten(dict(model.named_parameters())).detach()
        x, y = torch.rand(pool, 784), torch.zeros(pool, dtype=torch.long)
        held.append(forward_memory.held_by_record(task, weights, x[0], y[0]))
    assert held[0] == held[1] < 5 * 784 * 4


def test_what_a_forward_pass_holds_bounds_the_records_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own arithmetic: tanh keeps 4,096 floats, and little else is as large."""
    model = Body()
    task = Task(model, torch.nn.functional.cross_entropy, 2)
    weights = task.layout.flatten(dict(model.named_parameters())).detach()
    x, y = torch.rand(2, 6, 4), torch.zeros(2, 6, dtype=torch.long)
    held = forward_memory.held_by_record(task, weights, x[0, 0], y[0, 0])
    assert 4 * 4096 <= held <= 3 * 4 * 4096
    shares = torch.full((2, 6), 1 / 6)
    whole = clipping.clipped_sums(task, weights, x, y, shares, 0.1)
    seen: list[int] = []
    inner = getattr(clipping, "record_gradients")  # noqa: B009  # it is clipping's own import

    def noting(*given: Any) -> Any:
        seen.append(len(given[4]))
        return inner(*given)

    monkeypatch.setattr(clipping, "record_gradients", noting)
    monkeypatch.setattr(forward_memory, "HELD_AT_ONCE", 5 * held)
    parts = clipping.clipped_sums(task, weights, x, y, shares, 0.1)
    assert seen == [4, 4, 4], "two of each of two clients at once"
    torch.testing.assert_close(parts, whole)
