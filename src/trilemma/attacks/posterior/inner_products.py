"""Inner products of updates: all that a Gaussian posterior needs of them, whatever the model.

A record's update has m coordinates, but a distribution fitted on P records and asked about N
candidates lives in their span, so tables of P + N + a few rows carry every quadratic form without
loss. The rows are made in blocks, so that memory stays bounded for large models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from trilemma.attacks.posterior.posterior_inputs import blocks

__all__ = ["Forms", "Rows", "Table", "class_table", "held_out_remainder", "tabulate", "variance"]

_GUESS: Final = 1e-3  # of the rows' mean variance in their span: a remainder to start from
_STEPS: Final = 6
_LONGEST: Final = 4.0  # step of the remainder's logarithm
_NOTHING: Final = 1e-2  # of the noise: a remainder that need not be known
_SOME: Final = 32  # rows that are enough to see that it is so small
_HELD: Final = 2**27  # numbers of one block of rows: updates times coordinates

Rows = Callable[[int, int], torch.Tensor]
"""Makes the rows start .. stop - 1 of every unit, [B, stop - start, m]."""


@dataclass(frozen=True, eq=False)
class Table:
    """Inner products over m coordinates for B units, in the precision of the updates.

    P population rows a unit, centred on their mean; N candidates, centred on the same; A anchors,
    the vectors from which residuals are combined. rows [B, P, P], row_anchor [B, P, A],
    row_candidate [B, P, N], anchor [B, A, A], anchor_candidate [B, A, N], candidate [B, N] (the
    squared norms), known [B], the number of coordinates.
    """

    rows: torch.Tensor
    row_anchor: torch.Tensor
    row_candidate: torch.Tensor
    anchor: torch.Tensor
    anchor_candidate: torch.Tensor
    candidate: torch.Tensor
    known: torch.Tensor

    def forms(self, weights: torch.Tensor, remainder: torch.Tensor) -> Forms:
        """xᵀ Q⁻¹ y for the covariance Q = Σ_p weights_p a_p a_pᵀ + remainder · I, by Woodbury.

        `weights` [B, ..., P] of the rows a_p, `remainder` [B].
        """
        middle = weights.ndim - 2

        def lift(tensor: torch.Tensor) -> torch.Tensor:
            return tensor[(slice(None), *[None] * middle)]

        scale = lift(remainder)
        # G + remainder / weights: a row without weight gets a huge diagonal, not an infinite one
        shares = torch.maximum(weights, 1e-12 * scale[..., None])
        inner = lift(self.rows).expand(*shares.shape, shares.shape[-1]).clone()
        inner.diagonal(dim1=-2, dim2=-1).add_(scale[..., None] / shares)
        factor, _ = torch.linalg.cholesky_ex(inner)
        sides = lift(torch.cat([self.row_anchor, self.row_candidate], -1))
        solved = torch.linalg.solve_triangular(factor, sides, upper=False)
        anchors = self.row_anchor.shape[-1]
        by_anchor, by_candidate = solved[..., :anchors], solved[..., anchors:]
        turned = by_anchor.transpose(-2, -1)
        logs = 2 * factor.diagonal(dim1=-2, dim2=-1).log() + shares.log()
        return Forms(
            (lift(self.anchor) - turned @ by_anchor) / scale[..., None, None],
            (lift(self.anchor_candidate) - turned @ by_candidate) / scale[..., None, None],
            (lift(self.candidate) - by_candidate.square().sum(-2)) / scale[..., None],
            logs.sum(-1),
        )


@dataclass(frozen=True, eq=False)
class Forms:
    """Quadratic forms of anchors and candidates under Q⁻¹, and log det Q.

    anchor [..., A, A], anchor_candidate [..., A, N], candidate [..., N]; log_det [...], up to what
    depends on the remainder alone.
    """

    anchor: torch.Tensor
    anchor_candidate: torch.Tensor
    candidate: torch.Tensor
    log_det: torch.Tensor

    def of(self, mix: torch.Tensor, share: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
        """rᵀ Q⁻¹ r [..., V, N] of r = Σ_a mix_aj · a - Σ_c shift_vc · c - share_j · candidate_j.

        The first anchors a have mix [..., A', N], all others c have shifts [..., V, A - A']; share
        [..., N].
        """
        first = mix.shape[-2]
        own = (mix * (self.anchor[..., :first, :first] @ mix)).sum(-2)
        cross = (mix * self.anchor_candidate[..., :first, :]).sum(-2)
        plain = own - 2 * share * cross + share**2 * self.candidate
        moved = share[..., None, :] * self.anchor_candidate[..., first:, :]
        moved = moved - self.anchor[..., first:, :first] @ mix
        turned = ((shifts @ self.anchor[..., first:, first:]) * shifts).sum(-1, keepdim=True)
        return plain[..., None, :] + 2 * shifts @ moved + turned

    def widened(self, place: int, variance: torch.Tensor) -> Forms:
        """The forms under Q + variance · a aᵀ, a the anchor at `place`, by Sherman-Morrison.

        variance [...].
        """
        by_anchor, by_candidate = self.anchor[..., place], self.anchor_candidate[..., place, :]
        size = self.anchor[..., place, place]
        shrink = (variance / (1 + variance * size))[..., None]
        return Forms(
            self.anchor - shrink[..., None] * by_anchor[..., None] * by_anchor[..., None, :],
            self.anchor_candidate
            - shrink[..., None] * by_anchor[..., None] * by_candidate[..., None, :],
            self.candidate - shrink * by_candidate.square(),
            self.log_det + torch.log1p(variance * size),
        )


def tabulate(
    population: tuple[Rows, int],
    candidates: tuple[Rows, int],
    anchors: torch.Tensor,
    known: torch.Tensor,
) -> Table:
    """The table of (rows, how many) of population and candidates and of anchors [B, A, m]."""
    units, count, size = anchors.shape
    step = _HELD // max(1, units * size)
    (make, members), (guess, offered) = population, candidates
    new = anchors.new_empty
    rows = new(units, members, members)
    row_anchor = new(units, members, count)
    row_candidate = new(units, members, offered)
    anchor_candidate = new(units, count, offered)
    candidate = new(units, offered)
    columns = anchors.transpose(1, 2)
    for first, (start, stop) in enumerate(blocks(members, step)):
        held = make(start, stop)
        rows[:, start:stop, start:stop] = held @ held.transpose(1, 2)
        row_anchor[:, start:stop] = held @ columns
        for other, end in blocks(members, step):
            if other > start:
                rows[:, start:stop, other:end] = held @ make(other, end).transpose(1, 2)
                rows[:, other:end, start:stop] = rows[:, start:stop, other:end].transpose(1, 2)
        for other, end in blocks(offered, step):
            tried = guess(other, end)
            row_candidate[:, start:stop, other:end] = held @ tried.transpose(1, 2)
            if first == 0:
                anchor_candidate[:, :, other:end] = anchors @ tried.transpose(1, 2)
                candidate[:, other:end] = (tried * tried).sum(2)
    return Table(
        rows, row_anchor, row_candidate, anchors @ columns, anchor_candidate, candidate, known
    )


def variance(make: Rows, members: int, size: int) -> torch.Tensor:
    """Of each coordinate [B, m] of that many centred rows, `size` = B · m numbers each."""
    ends = blocks(members, _HELD // size)
    return torch.stack([make(*end).square().sum(1) for end in ends]).sum(0) / (members - 1)


def class_table(table: Table, member: torch.Tensor) -> Table:
    """The table with the C class means (of the centred rows) as further anchors.

    The rows are centred on the means of their classes; `member` [B, P, C] is one where a row
    belongs to a class.
    """
    mean = member / member.sum(1, keepdim=True).clamp(min=1)  # [B, P, C]
    turned = mean.transpose(1, 2)
    to_rows = turned @ table.rows  # class means with rows, [B, C, P]
    to_means = to_rows @ mean
    to_anchors = turned @ table.row_anchor
    to_candidates = turned @ table.row_candidate
    own = member @ to_rows  # the mean of the row's class, with rows
    rows = table.rows - own - own.transpose(1, 2) + member @ to_means @ member.transpose(1, 2)
    row_anchor = table.row_anchor - member @ to_anchors
    return Table(
        rows,
        torch.cat([row_anchor, to_rows.transpose(1, 2) - member @ to_means], 2),
        table.row_candidate - member @ to_candidates,
        torch.cat(
            [
                torch.cat([table.anchor, to_anchors.transpose(1, 2)], 2),
                torch.cat([to_anchors, to_means], 2),
            ],
            1,
        ),
        torch.cat([table.anchor_candidate, to_candidates], 1),
        table.candidate,
        table.known,
    )


def held_out_remainder(
    rows: torch.Tensor, known: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """The remainder r [B] at which a record left out is as far off as the others let expect.

    The mean over i of a_iᵀ (Σ_{p≠i} a_p a_pᵀ / (P - 2) + r · I)⁻¹ a_i is the number of known
    coordinates. So outside the rows' span r is the variance that new records have there; inside
    it makes up for what few rows miss. With K = G + (P - 2) r · I, G the rows' inner products, the
    form of row i is (1 / (K⁻¹)_ii - (P - 2) r) / r; Newton's method solves for log r. It is not
    sought beside `noise` [B], in units of one record's share, that drowns whatever it may be.
    `rows` [B, P, P] is G and `known` [B] the number of coordinates.
    """
    members = rows.shape[1]
    size = rows.diagonal(dim1=1, dim2=2).mean(1).clamp(min=torch.finfo(rows.dtype).tiny)
    if bool(_is_drowned(rows, known, noise).all()):
        return torch.zeros_like(size)
    # Centred rows add up to zero; their mean is put back as a direction of its own.
    inner = rows / size[:, None, None] + 10.0
    log = torch.full_like(size, math.log(_GUESS))
    least = math.log(1e-5 if rows.dtype == torch.float32 else 1e-11)
    for _ in range(_STEPS):
        ridge = (log.exp() * (members - 2) / members)[:, None]
        shifted = inner.clone()
        shifted.diagonal(dim1=1, dim2=2).add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        if rows.dtype == torch.float32 and bool(failed.any()):  # fewer coordinates than rows
            return held_out_remainder(rows.double(), known, noise).to(rows.dtype)
        inverse = torch.cholesky_inverse(factor)
        own = inverse.diagonal(dim1=1, dim2=2)
        left = (1 / own - ridge).mean(1)
        growth = ridge[:, 0] * (inverse.square().sum(2) / own.square() - 1).mean(1) / left
        step = (torch.log(left / known.clamp(min=1)) + math.log(members) - log) / (1 - growth)
        log = (log + step.clamp(-_LONGEST, _LONGEST)).clamp(min=least)
        if not bool((step.abs() > 1).any()):
            break
    return log.exp() * size / members


def _is_drowned(rows: torch.Tensor, known: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Whether the remainder is below `_NOTHING` of the noise, [B].

    At that r the forms of `held_out_remainder` would then have a mean below the number of known
    coordinates, for they fall with r. A distribution of some rows alone makes the others' forms
    larger: the first rows tell of all others, and the next ones of the first.
    """
    members, limit = rows.shape[1], _NOTHING * noise
    some = min(_SOME, members // 2)

    def beside(distribution: slice, others: slice) -> torch.Tensor:
        """What rows have beside those of a distribution; NaN where that has no factor."""
        inner = rows[:, distribution, distribution].clone()
        inner.diagonal(dim1=1, dim2=2).add_((members - 2) * limit[:, None])
        factor, failed = torch.linalg.cholesky_ex(inner)
        along = torch.linalg.solve_triangular(factor, rows[:, distribution, others], upper=False)
        left = rows.diagonal(dim1=1, dim2=2)[:, others] - along.square().sum(1)
        return torch.where((failed > 0)[:, None], torch.nan, left)

    first, rest = slice(some), slice(some, None)
    left = torch.cat((beside(slice(some, 2 * some), first), beside(first, rest)), 1)
    below: torch.Tensor = left.mean(1) < known.clamp(min=1) * limit
    return below & (noise > 0)
