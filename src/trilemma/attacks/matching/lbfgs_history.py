"""What L-BFGS keeps of its last steps, for a batch of slots."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Memory"]


@dataclass(eq=False)
class Memory:
    """The compact inverse-Hessian form of Byrd, Nocedal and Schnabel for a batch of slots.

    `pairs` [A + 1, 2, h, d] are steps s and gradient changes y. With R the upper triangle of SᵀY
    in order of age and D its diagonal,
    Hg = γg + S·R⁻ᵀ((D + γYᵀY)R⁻¹Sᵀg - γYᵀg) - γY·R⁻¹Sᵀg. R⁻¹ grows by bordering, and dropping
    the oldest pair only clears a row and a column of it, so no slot ever needs sorting. `tables`
    [A + 1, 2, h, h] are R⁻¹ and YᵀY, `diagonal` [A + 1, h] is D, `scale` [A] is γ; `count` [A]
    pairs were ever kept. The last row takes what belongs to no slot, so that it need not be asked
    which slots have a pair to keep; `rows` [A] are the others.
    """

    pairs: torch.Tensor
    tables: torch.Tensor
    diagonal: torch.Tensor
    scale: torch.Tensor
    count: torch.Tensor
    rows: torch.Tensor

    @classmethod
    def empty(cls, slots: int, history: int, like: torch.Tensor) -> Memory:
        """For so many slots, pairs, and vectors like this one."""
        # small, and squares of what they come from: single precision would lose the direction
        tables = like.new_zeros(slots + 1, 2, history, history, dtype=torch.float64)
        return cls(
            like.new_zeros(slots + 1, 2, history, like.shape[-1]),
            tables,
            tables.new_zeros(slots + 1, history),
            tables.new_ones(slots),
            torch.zeros(slots, dtype=torch.long, device=like.device),
            torch.arange(slots, device=like.device),
        )

    def clear(self, slots: torch.Tensor) -> None:
        """Forget the pairs of `slots` [A], a mask: nothing is read that R⁻¹ does not reach."""
        self.tables[:-1, 0].masked_fill_(slots[:, None, None], 0)
        self.count.masked_fill_(slots, 0)
        self.scale.masked_fill_(slots, 1)

    def keep(self, slots: torch.Tensor) -> None:
        """Drop all slots but these."""
        rows = torch.cat((slots, slots.new_tensor([-1])))
        self.pairs, self.tables = self.pairs[rows], self.tables[rows]
        self.diagonal = self.diagonal[rows]
        self.scale, self.count = self.scale[slots], self.count[slots]
        self.rows = self.rows[: len(slots)]

    def update(self, slots: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Add a pair for `slots` [A], a mask; return -H·gradient [A, d] for all slots.

        `seen` [A, 3, d] are the step, the gradient and its change.
        """
        at = self.count % self.pairs.shape[2]
        rows = self.rows.masked_fill(~slots, -1)
        self.pairs[rows, :, at] = seen[:, ::2]
        self.count += slots
        # row vectors throughout: batched products with one or two rows are several times faster
        pairs = self.pairs[:-1].flatten(1, 2)
        # in one piece: products of rows that lie otherwise round otherwise
        products = torch.bmm(seen.narrow(1, 1, 2).contiguous(), pairs.mT).double()
        own, new = products.chunk(2, 1)
        self._border(slots, rows, at, *new.chunk(2, 2))
        by_steps, by_changes = own.chunk(2, 2)
        inverse, gram = self.tables[:-1].unbind(1)
        along = torch.bmm(by_steps, inverse.mT)
        scale = self.scale.unsqueeze(1)
        stretch = scale.unsqueeze(2)
        inner = self.diagonal[:-1].unsqueeze(1) * along
        inner += stretch * (torch.bmm(along, gram) - by_changes)
        coefficients = torch.cat((-torch.bmm(inner, inverse), stretch * along), 2)
        combined = torch.bmm(coefficients.type_as(seen), pairs).squeeze(1)
        return combined.sub_(scale.type_as(seen) * seen.select(1, 1))

    def _border(
        self,
        slots: torch.Tensor,
        rows: torch.Tensor,
        at: torch.Tensor,
        by_steps: torch.Tensor,
        by_changes: torch.Tensor,
    ) -> None:
        """Replace the oldest row and column of R⁻¹, YᵀY and D by the new pair's.

        `by_steps` and `by_changes` [A, 1, h] are its change times all that is kept.
        """
        place = at.unsqueeze(1).unsqueeze(2)
        curvature = by_steps.gather(2, place)
        others = by_steps.scatter(2, place, 0) / -curvature
        border = torch.bmm(others, self.tables[:-1].select(1, 0).mT)
        border.scatter_(2, place, curvature.reciprocal())
        self.tables[rows, :, at] = torch.cat((torch.zeros_like(border), by_changes), 1)
        self.tables[rows, :, :, at] = torch.cat((border, by_changes), 1)
        self.diagonal[rows, at] = curvature.flatten()
        stretch = curvature / by_changes.gather(2, place)
        torch.where(slots, stretch.flatten(), self.scale, out=self.scale)
