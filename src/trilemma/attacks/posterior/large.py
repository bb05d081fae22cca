"""The table of a large model's updates, of which the coordinates that tell most are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.posterior.axes import Axes
from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.inner_products import Table, tabulate
from trilemma.attacks.posterior.units import Batch, blocks, held_at_once

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining, Task

__all__ = ["Read"]

_MADE: Final = 2**23  # numbers of which some are read: updates times coordinates
_LOOKED: Final = 64  # records by which the coordinates that are read are chosen


@dataclass(frozen=True, eq=False)
class Read:
    """What is read of one unit: k coordinates on which the population varies most.

    The update [1, 1, k], and contributions of population and candidates [1, n, k].
    """

    update: torch.Tensor
    people: torch.Tensor
    candidates: torch.Tensor

    @classmethod
    def of(
        cls,
        task: Task,
        path: Sequence[torch.Tensor],
        update: torch.Tensor,
        known: torch.Tensor,
        people: Batch,
        line_ups: Batch,
        training: LocalTraining,
    ) -> Read:
        """Contributions along a path, and of an update [1, m] what is `known` [1, m] of it."""
        sizes, made = list(task.layout.sizes), held_at_once(_MADE, update)
        first = contributions(task, path, people.rows(0, _LOOKED), training)[0]
        axes = Axes.of(task.layout, first - first.mean(0), known[0])

        def read(batch: Batch, start: int) -> list[torch.Tensor]:
            return [
                contributions(task, path, batch.rows(start + a, start + b), training, axes=axes)
                for a, b in blocks(batch.count - start, made // task.layout.size)
            ]

        seen = axes.read(torch.split(torch.where(known > 0, update, 0.0), sizes, 1))
        shown = axes.read(torch.split(first, sizes, 1))
        return cls(
            seen[None],
            torch.cat([shown[None], *read(people, len(first))], 1),
            torch.cat(read(line_ups, 0), 1),
        )

    def table(self, total: torch.Tensor, own: torch.Tensor | None, noise: torch.Tensor) -> Table:
        """Around the population's mean; anchors: the gap to `total` [1] of it, and the mean.

        With `own` [1] times a record's variance, coordinates are measured in units of that and of
        the noise [1].
        """
        mean = self.people.mean(1, keepdim=True)
        rows = [self.people - mean, self.candidates - mean]
        anchors = torch.cat([self.update - total[:, None, None] * mean, mean], 1)
        if own is not None:
            unit = (own[:, None] * _variance(rows[0]) + noise[:, None]).rsqrt()[:, None]
            rows, anchors = [each * unit for each in rows], anchors * unit
        return tabulate(
            (lambda start, stop: rows[0][:, start:stop], rows[0].shape[1]),
            (lambda start, stop: rows[1][:, start:stop], rows[1].shape[1]),
            anchors,
            torch.full_like(total, mean.shape[2]),
        )


def _variance(rows: torch.Tensor) -> torch.Tensor:
    """Of each coordinate [1, k], by centred rows [1, n, k] and one more that is like the mean.

    So a coordinate that none of the rows has touched is not taken for certain.
    """
    squares = rows.square().sum(1)
    found = (squares + squares.mean(1, keepdim=True) / rows.shape[1]) / rows.shape[1]
    return found.clamp(min=torch.finfo(rows.dtype).tiny)
