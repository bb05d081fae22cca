"""What single records contribute to an update, for many records and units at once.

A client's update for S records is the mean of their contributions: exactly so for a gradient,
and for several local steps along the path that an average client takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from trilemma.attacks.posterior.units import Batch
    from trilemma.learning import LocalTraining, Task

__all__ = ["average_path", "contributions"]


def average_path(
    task: Task, weights: torch.Tensor, average: Batch, training: LocalTraining
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """The models w_t [U, m] at which a client uses its records, and the mean contribution [U, m].

    One model for a gradient. For T local steps the T models of a client that descends the mean
    loss of the records `average`, w_{t+1} = w_t - lr · ∇L(w_t): what a client's records do to one
    another's gradients is averaged.
    """
    path = [weights]
    slope = vmap(grad(task.mean_loss), (0, *_places(average)))
    local = training.algorithm == "fedavg"
    with sdpa_kernel(SDPBackend.MATH):  # torch.func cannot map the fused attention
        step: torch.Tensor = slope(weights, average.inputs, average.labels)
        total = step
        for _ in range(training.steps - 1 if local else 0):
            path.append(path[-1] - training.lr * step)
            step = slope(path[-1], average.inputs, average.labels)
            total = total + step
    return path, training.lr * total if local else total


def contributions(
    task: Task, path: Sequence[torch.Tensor], records: Batch, training: LocalTraining
) -> torch.Tensor:
    """Each record's contribution [U, n, m]: its gradient, or lr · Σ_t of those along the path."""

    def loss(
        tensors: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        outputs = functional_call(task.model, tensors, (record[None],))
        return task.loss(outputs, label[None])

    # by named tensors: differentiating through the flat vector takes twice as long
    each = vmap(vmap(grad(loss), (None, 0, 0)), (0, *_places(records)))
    total = None
    with sdpa_kernel(SDPBackend.MATH):
        for weights in path:
            tensors = vmap(task.layout.unflatten)(weights)
            gradients = each(tensors, records.inputs, records.labels)
            flat = torch.cat([gradients[name].flatten(2) for name in task.layout.names], 2)
            total = flat if total is None else total.add_(flat)
    assert total is not None
    return total if training.algorithm == "fedsgd" else total.mul_(training.lr)


def _places(records: Batch) -> tuple[int | None, int | None]:
    return (None, None) if records.shared else (0, 0)
