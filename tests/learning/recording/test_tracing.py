from __future__ import annotations

import pytest
import torch
from tests.learning.small import make
from torch import nn
from torch.func import grad, vmap
from torch.nn.functional import huber_loss, l1_loss, smooth_l1_loss

from trilemma.learning import Task, traced
from trilemma.learning.losses import Loss
from trilemma.learning.recording.tracing import NotRecordable


def test_a_recorded_function_gives_the_same_numbers() -> None:
    task, weights, inputs, targets = make()

    def gradient(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = vmap(grad(task.mean_loss), (0, None, None))(at, x, y)
        return made

    several = torch.stack([weights, 2 * weights])
    run = traced(("gradient",), task, gradient, (several, inputs, targets))
    other = torch.stack([weights - 1, weights + 1])
    torch.testing.assert_close(run(other, inputs, targets), gradient(other, inputs, targets))
    assert traced(("gradient",), task, gradient, (other, inputs, targets)) is run


@pytest.mark.parametrize("loss", [l1_loss, smooth_l1_loss, huber_loss])
def test_losses_whose_slope_is_a_sign(loss: Loss) -> None:
    """The gradient of a sign is a tensor of zeros that has no memory."""
    _, _, inputs, _ = make()
    task = Task(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), loss, None)
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    targets = torch.randn(6, 2)

    def energy(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = grad(task.mean_loss)(at, x, y)
        return gradient.square().sum()

    def gradients(
        x: torch.Tensor, at: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        by_inputs, by_targets = vmap(grad(energy, argnums=(0, 2)), (0, None, None))(x, at, y)
        return by_inputs, by_targets

    several = torch.stack([inputs, -inputs])
    run = traced(("gradients", loss), task, gradients, (several, weights, targets))
    for x in (several, several + 1):
        for found, plain in zip(
            run(x, weights, targets), gradients(x, weights, targets), strict=True
        ):
            torch.testing.assert_close(found, plain)


def test_what_a_record_takes_as_constant_is_part_of_its_key() -> None:
    task, weights, inputs, targets = make()
    task.model.register_buffer("shift", torch.zeros(1))
    example = (weights, inputs, targets)

    def loss(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return task.mean_loss(at, x, y)

    first = traced(("loss",), task, loss, example)
    assert traced(("loss",), task, loss, example) is first
    assert traced(("other",), task, loss, example) is not first
    assert traced(("loss",), task, loss, (weights, inputs[:3], targets[:3])) is not first
    shift = task.model.get_buffer("shift")
    shift += 1
    assert traced(("loss",), task, loss, example) is not first
    again = traced(("loss",), task, loss, example)
    task.model.eval()
    assert traced(("loss",), task, loss, example) is not again


def test_constants_are_replayed_as_they_were() -> None:
    """What is written into while recording is written into anew, every time."""
    task, weights, _, _ = make()
    outside = torch.arange(3.0)

    def shifted(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inside = torch.tensor([1.0, 2.0, 3.0])
        inside += at[:3]
        largest, place = (inside * outside).max(0)
        return torch.cat([inside, outside.gather(0, place[None])]), largest

    run = traced(("shifted",), task, shifted, (weights,))
    for at in (weights, 2 * weights, -weights):
        for found, expected in zip(run(at), shifted(at), strict=True):
            assert torch.equal(found, expected)


def test_what_depends_on_a_number_read_out_cannot_be_recorded() -> None:
    task, weights, _, _ = make()

    def branching(at: torch.Tensor) -> torch.Tensor:
        return at if at[0] > 0 else -at

    with pytest.raises(NotRecordable, match="depends on numbers"):
        traced(("branching",), task, branching, (weights,))

    def picking(at: torch.Tensor) -> torch.Tensor:
        return at[at > 0].mean()

    with pytest.raises(NotRecordable, match="depends on numbers"):
        traced(("picking",), task, picking, (weights,))


def test_numbers_that_are_the_same_for_all_arguments_may_be_read() -> None:
    """Hugging Face's models look at their own masks."""
    task, weights, _, _ = make()

    def masked(at: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(3) > 0
        filled = torch.zeros(3)
        filled += at[:3]
        return filled * 2 if bool(mask.all()) else filled[mask]

    run = traced(("masked",), task, masked, (weights,))
    assert torch.equal(run(3 * weights), masked(3 * weights))

    def written(at: torch.Tensor) -> torch.Tensor:
        filled = torch.zeros(3)
        filled += at[:3]
        return at if filled.view(-1)[0] > 0 else -at

    with pytest.raises(NotRecordable):
        traced(("written",), task, written, (weights,))
