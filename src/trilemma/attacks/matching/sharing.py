"""Rounds of one training matched together: the record that all of them hold is one unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from trilemma.attacks.matching.lbfgs import Evaluate

__all__ = ["Shared"]

_STEP: Final = 32  # rows by which batches grow: functions are recorded for few shapes


@dataclass(frozen=True, eq=False)
class Shared:
    """Hypotheses: of which class the shared record is, and which record of each round it is.

    `training` [H] is whose hypothesis each one is, a place among the trainings; rows [H, T] are
    the views that hold the record, at `slots` [H, T]; `there` [H, T] is false where a training
    has fewer. A point [(1 + T n) d] is the shared record, then all n records of every round, of
    which the one in the slot counts for nothing.
    """

    training: torch.Tensor
    rows: torch.Tensor
    slots: torch.Tensor
    there: torch.Tensor

    @classmethod
    def of(cls, trainings: Sequence[int | None], labels: torch.Tensor, most: int) -> Shared | None:
        """The hypotheses on views with labels [V, n], neighbours where they are of one training.

        A record's class is one that most of the training's rounds hold, all of them where labels
        are right. At most `most` records are searched together; None where no rounds share any.
        """
        made: list[tuple[int, list[int], list[int]]] = []
        seen = enumerate(trainings)
        for place, (name, views) in enumerate(groupby(seen, key=lambda each: each[1])):
            own = [view for view, _ in views][: most // labels.shape[1]]
            if name is None or len(own) < 2:
                continue
            rounds = {view: labels[view].tolist() for view in own}
            holds = {
                label: [view for view, found in rounds.items() if label in found]
                for label in sorted({label for found in rounds.values() for label in found})
            }
            longest = max(map(len, holds.values()))
            made += [
                (place, views, [rounds[view].index(label) for view in views])
                for label, views in holds.items()
                if len(views) == longest > 1
            ]
        if not made:
            return None
        width = max(len(views) for _, views, _ in made)

        def padded(each: list[int]) -> list[int]:
            return each + [0] * (width - len(each))

        def table(column: list[list[int]]) -> torch.Tensor:
            return torch.tensor([padded(each) for each in column], device=labels.device)

        return cls(
            torch.tensor([place for place, _, _ in made], device=labels.device),
            table([views for _, views, _ in made]),
            table([slots for _, _, slots in made]),
            table([[1] * len(views) for _, views, _ in made]).bool(),
        )

    def __len__(self) -> int:
        return self.rows.shape[0]

    def spread(self, points: torch.Tensor, chosen: torch.Tensor, records: int) -> torch.Tensor:
        """The records [A, T, n, d] of the rounds of hypotheses `chosen` [A] at points [A, …]."""
        count, rounds = len(chosen), self.rows.shape[1]
        parts = points.reshape(count, 1 + rounds * records, -1)
        shared, own = parts[:, :1, None], parts[:, 1:].reshape(count, rounds, records, -1)
        return own.scatter(2, self._places(chosen, own), shared.expand(-1, rounds, 1, -1))

    def bind(
        self, alone: Callable[[torch.Tensor], Evaluate], records: int
    ) -> Callable[[torch.Tensor], Evaluate]:
        """What `minimise` binds for hypotheses, from what it binds for single views.

        A view's loss holds ½‖z‖² of all its records, which of the shared one counts once.
        """

        def bind(chosen: torch.Tensor) -> Evaluate:
            there = self.there[chosen]
            kept = there.flatten().nonzero()[:, 0]
            blank = kept.new_zeros(-len(kept) % _STEP)  # rows whose loss nobody reads
            used = torch.cat((kept, kept[blank]))
            single = alone(self.rows[chosen].flatten()[used])
            again = there.sum(1) - 1

            def evaluate(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                spread = self.spread(points, chosen, records)
                loss, slope = single(spread.flatten(2).flatten(0, 1)[used])
                losses = loss.new_zeros(there.numel())
                losses[kept] = loss[: len(kept)]
                slopes = torch.zeros_like(spread).flatten(2).flatten(0, 1)
                slopes[kept] = slope[: len(kept)]
                slopes = slopes.reshape(spread.shape)
                places = self._places(chosen, spread)
                shared = points.reshape(len(chosen), -1, spread.shape[-1])[:, 0]
                own = slopes.gather(2, places)[:, :, 0].sum(1) - again[:, None] * shared
                rest = slopes.scatter(2, places, 0.0).flatten(1)
                total = losses.reshape(there.shape).sum(1)
                return total - again / 2 * shared.square().sum(1), torch.cat((own, rest), 1)

            return evaluate

        return bind

    def _places(self, chosen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The slots as an index [A, T, 1, d] into records [A, T, n, d]."""
        return self.slots[chosen][:, :, None, None].expand(-1, -1, 1, like.shape[-1])

    def best(self, loss: torch.Tensor) -> list[int]:
        """The hypothesis of least loss [H] of each training; all of one have as many rounds."""
        found: dict[int, int] = {}
        for hypothesis in loss.argsort(descending=True, stable=True).tolist():
            if bool(torch.isfinite(loss[hypothesis])):
                found[int(self.training[hypothesis])] = hypothesis
        return sorted(found.values())
