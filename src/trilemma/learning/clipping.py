"""Sums of clipped gradients of many records at one model, without a gradient each.

A linear layer that reads one row has for record i the gradient δ_i x_iᵀ of norm |δ_i| |x_i|: the
sum Σ_i s_i δ_i x_iᵀ is one product of matrices. Of all other tensors gradients are written out, of
a few records at a time. Norm and contribution are made of the same numbers, so that no record
adds more than its share of the clip, whatever the weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch

from trilemma.learning.layer_products import Products, RecordLoss, record_gradients, written_out

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["clipped_sums"]

_WIDEST: Final = 1 << 22  # coordinates of gradients that are written out at once
_WIDEST_ON_GPU: Final = 1 << 28

_Factors = tuple[torch.Tensor, torch.Tensor]


def clipped_sums(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    shares: torch.Tensor,
    clip: float,
) -> torch.Tensor:
    """Σ_b shares_kb · min(1, clip / ‖g_kb‖) · g_kb [K, m], g_kb of client k's record b.

    Gradients are at weights [m], for inputs [K, B, ...], labels [K, B, ...] and shares [K, B].
    A record whose gradient or norm is not finite adds nothing.
    """
    clients, count = inputs.shape[:2]
    widest = _WIDEST_ON_GPU if weights.is_cuda else _WIDEST
    size = max(1, widest // (clients * weights.numel()))
    total: list[torch.Tensor] = []
    for start in range(0, count, size):
        x, y, share = (each[:, start : start + size] for each in (inputs, labels, shares))
        parts = record_gradients(
            task, _loss_of(task), weights, (), x.flatten(0, 1), y.flatten(0, 1)
        )
        added = _sums([_rows(part) for part in parts], share, clip)
        total = added if not total else [a + b for a, b in zip(total, added, strict=True)]
    return torch.cat([each.flatten(1) for each in total], 1)


def _loss_of(task: Task) -> RecordLoss:
    return RecordLoss(
        "of a record", lambda named, _, x, y: task.loss_of(task.run(named, x[None]), y[None])
    )


def _rows(part: torch.Tensor | Products) -> torch.Tensor | _Factors:
    """One tensor's gradients: factors δ [n, d] and x [n, e], or written out [n, size]."""
    factors = part.factors if isinstance(part, Products) else None
    return written_out(part) if factors is None else factors


def _sums(
    parts: Sequence[torch.Tensor | _Factors], shares: torch.Tensor, clip: float
) -> list[torch.Tensor]:
    """Tensor by tensor, the sums [K, ...] over records of shares [K, B]."""
    norms = torch.stack([_squares(part) for part in parts]).sum(0).sqrt()
    finite = norms.isfinite()[:, None]
    scales = shares.flatten().double() * torch.clamp(clip / norms, max=1.0)
    scales = _flushed(torch.where(finite[:, 0], scales, 0.0).to(shares.dtype))[:, None]

    def by_client(rows: torch.Tensor) -> torch.Tensor:
        return torch.where(finite, rows, 0.0).view(*shares.shape, -1)

    made: list[torch.Tensor] = []
    for part in parts:
        if isinstance(part, torch.Tensor):
            weighing = scales.view(shares.shape).unsqueeze(1)
            made.append((weighing @ by_client(part)).squeeze(1))
        else:
            slopes, read = part
            made.append(by_client(_flushed(slopes * scales)).mT @ by_client(read))
    return made


def _squares(part: torch.Tensor | _Factors) -> torch.Tensor:
    """‖g_i‖² [n] of one tensor's part of each gradient, in double precision."""
    if isinstance(part, torch.Tensor):
        return _norms(part).square()
    slopes, read = part
    return (_norms(slopes) * _norms(read)).square()


def _norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms


def _flushed(values: torch.Tensor) -> torch.Tensor:
    """Zero instead of a denormal number, which is rounded by more than its share of the clip."""
    return torch.where(values.abs() < torch.finfo(values.dtype).tiny, 0.0, values)
