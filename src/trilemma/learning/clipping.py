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
from torch.nn.functional import pad

from trilemma.learning.forward_memory import held_at_most, held_by_record
from trilemma.learning.layer_products import Products, RecordLoss, record_gradients, written_out

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["clip_scales", "clipped_products", "clipped_sums"]

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
    A record whose gradient or norm is not finite adds nothing. As many records are taken at once
    as leave room for their gradients, and for what their forward passes hold.
    """
    clients, count = inputs.shape[:2]
    widest = _WIDEST_ON_GPU if weights.is_cuda else _WIDEST
    held = clients * held_by_record(task, weights, inputs[0, 0], labels[0, 0])
    room = min(widest // (clients * weights.numel()), held_at_most(weights) // held)
    size = max(1, min(count, room))
    if weights.is_cuda and (short := -count % size):  # blocks of one shape are recorded once
        inputs, labels = (
            torch.cat([value, value[:, :1].repeat_interleave(short, 1)], 1)
            for value in (inputs, labels)
        )
        shares = pad(shares, (0, short))
    total: list[torch.Tensor] = []
    for start in range(0, count, size):
        x, y, share = (value[:, start : start + size] for value in (inputs, labels, shares))
        parts = record_gradients(
            task, _loss_of(task), weights, (), x.flatten(0, 1), y.flatten(0, 1)
        )
        added = _sums([_rows(part) for part in parts], share, clip)
        total = added if not total else [a + b for a, b in zip(total, added, strict=True)]
    return torch.cat([item.flatten(1) for item in total], 1)


def clip_scales(gradients: Sequence[torch.Tensor | Products], clip: float) -> torch.Tensor:
    """min(1, clip / ‖g_i‖) [n] of gradients g_i given tensor by tensor; 0 where not finite."""
    norms = torch.stack([_squares(_rows(part)) for part in gradients]).sum(0).sqrt()
    return torch.where(norms.isfinite(), torch.clamp(clip / norms, max=1.0), 0.0)


def clipped_products(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    along: torch.Tensor,
    clip: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(⟨g_b, along⟩ [B], ‖g_b‖² [B]) of gradients that are clipped, in double precision.

    g_b, of records [B, ...] at weights [m], is scaled by min(1, clip / ‖g_b‖); `along` [m] is any
    vector. Of a record whose gradient or norm is not finite both are zero.
    """
    parts = record_gradients(task, _loss_of(task), weights, (), inputs, labels)
    rows = [_rows(part) for part in parts]
    squares = torch.stack([_squares(part) for part in rows]).sum(0)
    pieces = torch.split(along, list(task.layout.sizes))
    inner = torch.stack([_inner(*pair) for pair in zip(rows, pieces, strict=True)]).sum(0)
    scales = torch.clamp(clip / squares.sqrt(), max=1.0)
    finite = squares.isfinite() & inner.isfinite()
    return (
        torch.where(finite, scales * inner, 0.0),
        torch.where(finite, torch.clamp(squares, max=clip**2), 0.0),
    )


def _inner(rows: torch.Tensor | _Factors, along: torch.Tensor) -> torch.Tensor:
    """⟨g_i, along⟩ [n] of one tensor's part of each gradient."""
    if isinstance(rows, torch.Tensor):
        return (rows @ along).double()
    gradients, read = rows
    held = along.view(gradients.shape[1], read.shape[1])
    return ((gradients @ held) * read).sum(1, dtype=torch.float64)


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
            gradients, read = part
            made.append(by_client(_flushed(gradients * scales)).mT @ by_client(read))
    return made


def _squares(part: torch.Tensor | _Factors) -> torch.Tensor:
    """‖g_i‖² [n] of one tensor's part of each gradient, in double precision."""
    if isinstance(part, torch.Tensor):
        return _norms(part).square()
    gradients, read = part
    return (_norms(gradients) * _norms(read)).square()


def _norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms


def _flushed(values: torch.Tensor) -> torch.Tensor:
    """Zero instead of a denormal number, which is rounded by more than its share of the clip."""
    return torch.where(values.abs() < torch.finfo(values.dtype).tiny, 0.0, values)
