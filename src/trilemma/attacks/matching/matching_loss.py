"""What K clients would have sent for a candidate, and how far that is from what was observed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.learning import LocalTraining, Task, client_update

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.attacks.matching.record_vectors import Candidates

__all__ = ["explained_update", "squared_distance"]


def explained_update(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
    client_weights: torch.Tensor,
    clip: float | None,
) -> torch.Tensor:
    """Σ_k client_weights_k · clip(update of client k): what K clients send for [K·S] records.

    `client_weights` [K] or [K, m]; `clip` scales an update u by min(1, clip / ‖u‖). Returns [m].
    """
    clients, size = client_weights.shape[0], local_training.unit_size
    if clients == 1:  # no map, which would cost a third more
        update = _sent(task, weights, inputs, targets, local_training, clip)
        return client_weights[0] * update
    x = inputs.reshape(clients, size, *inputs.shape[1:])
    y = targets.reshape(clients, size, *targets.shape[1:])
    plain = local_training.algorithm == "fedsgd" and not local_training.by_record
    if plain and clip is None and client_weights.ndim == 1:
        # gradients add up to the gradient of the sum, at half the cost of K of them

        def total(at: torch.Tensor) -> torch.Tensor:
            losses: torch.Tensor = task.way.vmap(partial(task.mean_loss, at))(x, y)
            return client_weights @ losses

        with sdpa_kernel(SDPBackend.MATH):
            summed: torch.Tensor = task.way.grad(total)(weights)
        return summed
    updates: torch.Tensor = task.way.vmap(
        lambda a, b: _sent(task, weights, a, b, local_training, clip)
    )(x, y)
    return (client_weights.reshape(clients, -1) * updates).sum(0)


def _sent(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
    clip: float | None,
) -> torch.Tensor:
    """One client's update [m], clipped."""
    with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
        update = client_update(task, weights, inputs, targets, local_training)
    if clip is None:
        return update
    norm = torch.sqrt((update * update).sum() + torch.finfo(update.dtype).tiny)
    return update * torch.clamp(clip / norm, max=1.0)


def squared_distance(candidates: Candidates, view: View) -> Callable[..., torch.Tensor]:
    """Σ_known (explained update - observed update)², one unit, for a task's way to map.

    Arguments: z [d], weights [m], update [m], known [m], client_weights [K] or [K, m], labels [S].
    """
    clip, training, task = view.observation.clip, view.local_training, view.task

    def distance(
        z: torch.Tensor,
        weights: torch.Tensor,
        update: torch.Tensor,
        known: torch.Tensor,
        client_weights: torch.Tensor,
        labels: torch.Tensor,
    ) -> torch.Tensor:
        targets = candidates.targets(z) if candidates.joint else labels
        explained = explained_update(
            task, weights, candidates.inputs(z), targets, training, client_weights, clip
        )
        residual = known * explained - update
        return (residual * residual).sum()

    return distance
