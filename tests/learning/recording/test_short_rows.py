from __future__ import annotations

import pytest
import torch
from tests.learning.small import make
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from trilemma.learning import traced
from trilemma.learning.recording.short_rows import by_columns

ATEN = torch.ops.aten
FORWARD = (ATEN._softmax.default, ATEN._log_softmax.default)
BACKWARD = (ATEN._softmax_backward_data.default, ATEN._log_softmax_backward_data.default)


def drawn(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(3,), (7, 3), (2, 5, 4, 2), (0, 3), (4, 1)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_they_are_torchs_own(shape: tuple[int, ...], scale: float) -> None:
    x, gradient = drawn(*shape, scale=scale), drawn(*shape).flip(0)
    for operation, gradients in zip(FORWARD, BACKWARD, strict=True):
        given = (x, x.ndim - 1, False)
        quicker = by_columns(operation, given)
        assert quicker is not None
        made = operation(*given)
        torch.testing.assert_close(quicker(*given), made)
        back = (gradient, made, -1, torch.float32)
        quicker = by_columns(gradients, back)
        assert quicker is not None
        torch.testing.assert_close(quicker(*back), gradients(*back))


def test_what_is_impossible_stays_so() -> None:
    x = torch.tensor([[0.0, -torch.inf, 1.0]])
    for operation in FORWARD:
        quicker = by_columns(operation, (x, 1, False))
        assert quicker is not None
        torch.testing.assert_close(quicker(x), operation(x, 1, False))


def test_other_rows_are_left_to_torch() -> None:
    short, long = drawn(5, 3), drawn(5, 100)
    for operation in FORWARD:
        assert by_columns(operation, (short, 1, False)) is not None
        assert by_columns(operation, (short, 0, False)) is None
        assert by_columns(operation, (short.half(), 1, False)) is None
        assert by_columns(operation, (short.half(), 1, True)) is None
        assert by_columns(operation, (short.to("meta"), 1, False)) is None
        assert by_columns(operation, (long, 1, False)) is None
    assert by_columns(BACKWARD[0], (short, short, 1, torch.float16)) is None
    assert by_columns(ATEN.exp.default, (short,)) is None


def test_a_recorded_slope_of_slopes_is_autograds() -> None:
    task, weights, inputs, _ = make()
    labels = drawn(6, 3).softmax(1)

    def energy(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = grad(task.mean_loss)(at, x, y.softmax(1))
        return gradient.square().sum()

    both = vmap(grad(energy, argnums=(0, 1)), (0, 0, None))
    example = (torch.stack([inputs, -inputs]), torch.stack([labels, 2 * labels]), weights)
    run = traced(("energy",), task, both, example)
    assert "softmax" not in str([step.target for step in run.steps])  # type: ignore[attr-defined]
    for x, y, dx, dy in zip(*example[:2], *run(*example), strict=True):
        x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
        at = weights.clone().requires_grad_()
        loss = cross_entropy(task.outputs(at, x), y.softmax(1))
        (gradient,) = torch.autograd.grad(loss, at, create_graph=True)
        expected = torch.autograd.grad(gradient.square().sum(), (x, y))
        torch.testing.assert_close((dx, dy), expected)
