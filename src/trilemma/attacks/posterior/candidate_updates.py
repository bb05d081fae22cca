"""What single records contribute to an update, for many records and units at once.

A client's update for S records is the mean of their contributions: exactly so for a gradient,
nearly so for several local steps, if those are taken along the client's own path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.attacks.posterior.units import blocks
from trilemma.learning import clip_records

if TYPE_CHECKING:
    from trilemma.attacks.posterior.units import Batch
    from trilemma.learning import LocalTraining, Task

__all__ = ["Path", "average_path", "contributions", "observed_path"]

Path = tuple[list[torch.Tensor], torch.Tensor]
"""Models w_t [U, m] at which a client uses its records, and the mean contribution [U, m]."""

_HELD: Final = 2**22  # numbers held at once for a mean: updates times coordinates


def average_path(
    task: Task, weights: torch.Tensor, average: Batch, training: LocalTraining
) -> Path:
    """The path of a client that descends the mean loss of the records `average`.

    One model for a gradient, T for T local steps, w_{t+1} = w_t - lr · ∇L(w_t).
    """
    path = [weights]
    local = training.algorithm == "fedavg"
    step = total = _mean_gradient(task, weights, average, training)
    for _ in range(training.steps - 1 if local else 0):
        path.append(path[-1] - training.lr * step)
        step = _mean_gradient(task, path[-1], average, training)
        total = total + step
    return path, training.lr * total if local else total


def observed_path(
    task: Task, path: Path, deviation: torch.Tensor, average: Batch, training: LocalTraining
) -> Path:
    """The path of a client whose update deviates by [U, m] from the average one's.

    It gets as far with each step as the average client does, but straight to where its own update
    says that it ended: what records do to one another's gradients is in the update.
    """
    models, mean = path
    if len(models) == 1:
        return path
    start, norm = models[0], mean.square().sum(1, keepdim=True)
    bent = [
        start - ((start - model) * mean).sum(1, keepdim=True) / norm * (mean + deviation)
        for model in models
    ]
    gradients = [_mean_gradient(task, model, average, training) for model in bent]
    return bent, training.lr * torch.stack(gradients).sum(0)


def _mean_gradient(
    task: Task, weights: torch.Tensor, average: Batch, training: LocalTraining
) -> torch.Tensor:
    if training.record_clip is None:
        with sdpa_kernel(SDPBackend.MATH):  # torch.func cannot map the fused attention
            slope = vmap(grad(task.mean_loss), (0, *_places(average)))
            mean: torch.Tensor = slope(weights, average.inputs, average.labels)
        return mean
    sums = [
        _gradients(task, weights, average.rows(start, stop), training).sum(1)
        for start, stop in blocks(average.count, _HELD // weights.numel())
    ]
    return torch.stack(sums).sum(0) / average.count


def contributions(
    task: Task, path: Sequence[torch.Tensor], records: Batch, training: LocalTraining
) -> torch.Tensor:
    """Each record's contribution [U, n, m]: its gradient, or lr · Σ_t of those along the path."""
    total = _gradients(task, path[0], records, training)
    for weights in path[1:]:
        total += _gradients(task, weights, records, training)
    return total if training.algorithm == "fedsgd" else total.mul_(training.lr)


def _gradients(
    task: Task, weights: torch.Tensor, records: Batch, training: LocalTraining
) -> torch.Tensor:
    """Each record's gradient [U, n, m] at weights [U, m], as long as the training leaves it."""

    def loss(
        tensors: dict[str, torch.Tensor], record: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        outputs = functional_call(task.model, tensors, (record[None],))
        return task.loss_of(outputs, label[None])

    # by named tensors: differentiating through the flat vector takes twice as long
    each = vmap(vmap(grad(loss), (None, 0, 0)), (0, *_places(records)))
    tensors = vmap(task.layout.unflatten)(weights)
    with sdpa_kernel(SDPBackend.MATH):
        named = each(tensors, records.inputs, records.labels)
    flat = torch.cat([named[name].flatten(2) for name in task.layout.names], 2)
    return flat if training.record_clip is None else clip_records(flat, training.record_clip)


def _places(records: Batch) -> tuple[int | None, int | None]:
    return (None, None) if records.shared else (0, 0)
