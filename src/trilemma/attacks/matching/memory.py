"""What L-BFGS keeps of its last steps, for a batch of slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Memory"]


class Memory:
    """The compact inverse-Hessian form of Byrd, Nocedal and Schnabel for a batch of slots.

    Rows 0 … h-1 of `pairs` [A, 2h, d] are steps s, rows h … 2h-1 are gradient changes y. With
    R the upper triangle of SᵀY in order of age and D its diagonal,
    Hg = γg + S·R⁻ᵀ((D + γYᵀY)R⁻¹Sᵀg - γYᵀg) - γY·R⁻¹Sᵀg. R⁻¹ grows by bordering, and dropping
    the oldest pair only clears a row and a column of it, so no slot ever needs sorting.
    """

    def __init__(self, slots: int, history: int, like: torch.Tensor) -> None:
        size = like.shape[-1]
        self.history = history
        self.pairs = like.new_zeros(slots, 2 * history, size)
        # small, and squares of what they come from: single precision would lose the direction
        self.inverse = like.new_zeros(slots, history, history, dtype=torch.float64)
        self.gram = torch.zeros_like(self.inverse)
        self.diagonal = self.inverse.new_zeros(slots, history)
        self.scale = self.inverse.new_ones(slots)
        self.count = torch.zeros(slots, dtype=torch.long, device=like.device)

    def clear(self, slots: torch.Tensor) -> None:
        """Forget the pairs of `slots` [A], a mask: nothing is read that R⁻¹ does not reach."""
        self.inverse.masked_fill_(slots[:, None, None], 0)
        self.count.masked_fill_(slots, 0)
        self.scale.masked_fill_(slots, 1)

    def keep(self, slots: torch.Tensor) -> None:
        """Drop all slots but these."""
        for name in ("pairs", "inverse", "gram", "diagonal", "scale", "count"):
            setattr(self, name, getattr(self, name)[slots])

    def update(
        self,
        slots: torch.Tensor,
        steps: torch.Tensor,
        changes: torch.Tensor,
        gradient: torch.Tensor,
    ) -> torch.Tensor:
        """Add a pair for `slots` [A], a mask; return -H·gradient [A, d] for all slots."""
        h, put = self.history, _Rows.of(slots)
        at = self.count[put.rows] % h
        put(self.pairs, (put.rows, at), steps[put.rows])
        put(self.pairs, (put.rows, h + at), changes[put.rows])
        self.count += slots
        # row vectors throughout: batched products with one or two rows are several times faster
        both = torch.stack((gradient, changes), 1)
        products = torch.bmm(both, self.pairs.transpose(1, 2)).double()
        self._border(put, at, products[put.rows, 1])
        along = torch.bmm(products[:, :1, :h], self.inverse.transpose(1, 2))
        scale = self.scale[:, None, None]
        inner = self.diagonal[:, None] * along
        inner += scale * (torch.bmm(along, self.gram) - products[:, :1, h:])
        coefficients = torch.cat((torch.bmm(inner, self.inverse), -scale * along), 2)
        combined = torch.bmm(coefficients.to(gradient.dtype), self.pairs)[:, 0]
        return -(self.scale[:, None].to(gradient.dtype) * gradient + combined)

    def _border(self, put: _Rows, at: torch.Tensor, products: torch.Tensor) -> None:
        """Replace the oldest row and column of R⁻¹, YᵀY and D by the new pair's."""
        h, place = self.history, at[:, None]
        row, column = (put.rows, at), (put.rows, slice(None), at)
        put(self.inverse, row, torch.zeros_like(products[:, :h]))
        put(self.inverse, column, torch.zeros_like(products[:, :h]))
        curvature = products[:, :h].gather(1, place)
        old = self.inverse[put.rows].transpose(1, 2)
        border = torch.bmm(-products[:, None, :h] / curvature[:, None], old)[:, 0]
        put(self.inverse, column, border.scatter(1, place, 1 / curvature))
        put(self.gram, row, products[:, h:])
        put(self.gram, column, products[:, h:])
        put(self.diagonal, row, curvature[:, 0])
        stretch = curvature[:, 0] / products[:, h:].gather(1, place)[:, 0]
        put(self.scale, (put.rows,), stretch)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some slots: their places; of a GPU all places, and a mask, as it is not asked how many."""

    rows: torch.Tensor
    mask: torch.Tensor | None

    @classmethod
    def of(cls, slots: torch.Tensor) -> _Rows:
        if not slots.is_cuda:
            return cls(torch.nonzero(slots)[:, 0], None)
        return cls(torch.arange(len(slots), device=slots.device), slots)

    def __call__(self, into: torch.Tensor, where: tuple[Any, ...], made: torch.Tensor) -> None:
        """Puts what was made [A, ...] for these rows where it belongs."""
        if self.mask is not None:
            mask = self.mask.reshape(-1, *[1] * (made.ndim - 1))
            made = torch.where(mask, made, into[where])
        into[where] = made
