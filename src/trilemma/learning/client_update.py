"""The update that a client sends, of one gradient or of several local steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from trilemma.learning.local_training import LocalTraining
    from trilemma.learning.tasks import Task

__all__ = ["client_update", "clip_records", "summed_records"]


def client_update(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """The flat update [m] that a client at `weights` [m] sends for its records [B, ...].

    Always points like a gradient: the server applies w ← w - step · update, with step = lr for
    FedSGD and 1 for FedAvg. With S = `batch`, records that are clipped, drawn by Poisson or
    masked count one by one, (1/S) Σ_i present_i · clip(g_i, C_r) in each step; `present` [B], or
    [steps, B], is as `draw_rows` gives it (None: all take part).
    """
    if local_training.algorithm == "fedsgd":
        return _gradient(task, weights, inputs, targets, local_training, present)
    size = inputs.shape[0]
    current, update = weights, torch.zeros_like(weights)
    for step in range(local_training.steps):
        here = present[step] if present is not None and present.ndim == 2 else present
        x, y = inputs, targets
        if local_training.sampling == "fixed":
            start = step * local_training.batch
            rows = torch.arange(start, start + local_training.batch, device=inputs.device) % size
            x, y, here = inputs[rows], targets[rows], None if here is None else here[rows]
        still = _still(task, current)
        gradient = _gradient(task, still, x, y, local_training, here)
        if task.statistics is not None:
            gradient = gradient + task.statistics.to(current) * (current - still)
        # The sum of the steps, not a difference of weights: crafted ones would round that by more
        # than a record's share.
        update = update + local_training.lr * gradient
        current = weights - update
    return update


def _still(task: Task, weights: torch.Tensor) -> torch.Tensor:
    """Weights [m] whose running statistics depend on no record of the steps before.

    Their gradient μ (r - b) / lr is set by a hook, no derivative (`statistics`), and would reach
    those records as well; μ / lr times what is missing, which is zero, brings back r as their
    function.
    """
    if task.statistics is None:
        return weights
    return torch.where(task.statistics.to(weights) != 0, weights.detach(), weights)


def _gradient(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
    present: torch.Tensor | None,
) -> torch.Tensor:
    """The gradient [m] of one step over records [B, ...], of which those `present` [B] count."""
    way = task.way
    if present is None and not local_training.by_record:
        mean: torch.Tensor = way.grad(task.mean_loss)(weights, inputs, targets)
        return mean

    def one(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return task.mean_loss(at, x[None], y[None])

    if present is None:
        present = torch.ones(inputs.shape[0], device=weights.device)
    shares = present.to(weights) / local_training.batch
    if local_training.record_clip is None:

        def total(at: torch.Tensor) -> torch.Tensor:
            losses: torch.Tensor = way.vmap(one, (None, 0, 0))(at, inputs, targets)
            return (shares * losses).sum()

        whole: torch.Tensor = way.grad(total)(weights)
        return whole
    gradients = way.vmap(way.grad(one), (None, 0, 0))(weights, inputs, targets)
    return summed_records(gradients, shares, local_training.record_clip)


def summed_records(
    gradients: torch.Tensor, shares: torch.Tensor, clip: float | None
) -> torch.Tensor:
    """Σ_i shares_i · clip(g_i) [m] of gradients [B, m]; as they are where there is no clip."""
    return shares @ (gradients if clip is None else clip_records(gradients, clip))


def clip_records(gradients: torch.Tensor, clip: float) -> torch.Tensor:
    """Rows g [..., m] scaled by min(1, clip / ‖g‖); a row that is not finite becomes zero.

    So no record, whatever it holds, moves the sum by more than `clip`: by a relative 1e-6 more at
    most in single precision, for any weights. Norms are in double precision, and one that
    overflows makes its row zero.
    """
    finite = torch.isfinite(gradients).all(-1, keepdim=True)
    rows = torch.where(finite, gradients, 0.0)
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True, dtype=torch.float64)
    # The factor's root, twice: below 1e-38 single precision would round the factor itself away.
    root = torch.sqrt(clip / norms.clamp(min=clip)).to(rows.dtype)
    return rows * root * root
