"""The table of a large model's updates, of which the coordinates that tell most are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.func import vmap

from trilemma.attacks.posterior.axes import Axes
from trilemma.attacks.posterior.candidate_updates import companies, contributions
from trilemma.attacks.posterior.inner_products import Table, tabulate
from trilemma.attacks.posterior.units import Batch, blocks, held_at_once
from trilemma.entropy import Seeded
from trilemma.learning import client_update

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining, Task

__all__ = ["Read"]

_MADE: Final = 2**23  # numbers of which some are read: updates times coordinates
_LOOKED: Final = 64  # records by which the coordinates that are read are chosen
_SENT: Final = 384  # records of simulated batches
_FEWEST: Final = 24  # batches, of however many records


@dataclass(frozen=True, eq=False)
class Read:
    """What is read of one unit: k coordinates on which the population varies most.

    The update [1, 1, k], and contributions of population and candidates [1, n, k]; `left` [M, k]
    is what they leave unexplained of M batches' updates, around its mean (None: nothing).
    """

    update: torch.Tensor
    people: torch.Tensor
    candidates: torch.Tensor
    left: torch.Tensor | None = None

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
        seed: int = 0,
    ) -> Read:
        """Contributions along a path, and of an update [1, m] what is `known` [1, m] of it."""
        sizes, made = list(task.layout.sizes), held_at_once(_MADE, update)
        beside = companies(task, path, people, training)
        first = contributions(task, path, people.rows(0, _LOOKED), training, beside)[0]
        axes = Axes.of(task.layout, first - first.mean(0), known[0])

        def read(batch: Batch, start: int) -> list[torch.Tensor]:
            return [
                contributions(task, path, batch.rows(start + a, start + b), training, beside, axes)
                for a, b in blocks(batch.count - start, made // task.layout.size)
            ]

        seen = axes.read(torch.split(torch.where(known > 0, update, 0.0), sizes, 1))
        shown = axes.read(torch.split(first, sizes, 1))
        found = cls(
            seen[None],
            torch.cat([shown[None], *read(people, len(first))], 1),
            torch.cat(read(line_ups, 0), 1),
        )
        if beside is None:
            return found
        rows = _drawn(people.count, training.unit_size, seed)
        sent = [
            axes.read(torch.split(each, sizes, 1))
            for each in _sent(task, path[0][0], people, rows, training, made)
        ]
        return found._fitted(rows, torch.cat(sent), axes.tensors)

    def _fitted(self, rows: torch.Tensor, sent: torch.Tensor, tensors: torch.Tensor) -> Read:
        """The same with contributions that fit the updates [M, k] of batches of the population.

        In a batch of records `rows` [M, S] they are β_l times as far from their mean, on the
        tensor l (that of each coordinate: `tensors` [k]), as the regression of what batches send
        on the mean of their records' contributions says; the mean becomes what batches send.
        """
        people, mean = self.people[0], sent.mean(0)
        gaps = sent - mean
        parts = people[rows].mean(1)
        parts -= parts.mean(0)
        along, squares = (
            torch.zeros(len(tensors)).to(sent).index_add_(0, tensors, each.sum(0))
            for each in (parts * gaps, parts * parts)
        )
        factor = (along / squares.clamp(min=torch.finfo(sent.dtype).tiny))[tensors]
        centre = people.mean(0)
        return Read(
            self.update,
            mean + factor * (self.people - centre),
            mean + factor * (self.candidates - centre),
            gaps - factor * parts,
        )

    def table(self, weights: torch.Tensor, own: torch.Tensor | None, noise: torch.Tensor) -> Table:
        """Around the population's mean; anchors: the gap to what clients [1, K] have of it, it.

        With `own` [1] times a record's variance, coordinates are measured in units of that, of the
        noise [1] and of what is left of a batch, whose covariance is taken out besides.
        """
        mean, total = self.people.mean(1, keepdim=True), weights.sum(1)
        rows = [self.people - mean, self.candidates - mean]
        anchors = torch.cat([self.update - total[:, None, None] * mean, mean], 1)
        if own is not None:
            spread = own[:, None] * _variance(rows[0]) + noise[:, None]
            left = None
            if self.left is not None:
                left = weights.square().sum(1).sqrt() * self.left
                spread = spread + _variance(left[None])
            unit = spread.rsqrt()[:, None]
            rows, anchors = [each * unit for each in rows], anchors * unit
            if left is not None:
                turn = _whitening(left * unit[0])
                rows, anchors = [turn(each) for each in rows], turn(anchors)
        return tabulate(
            (lambda start, stop: rows[0][:, start:stop], rows[0].shape[1]),
            (lambda start, stop: rows[1][:, start:stop], rows[1].shape[1]),
            anchors,
            torch.full_like(total, mean.shape[2]),
        )


def _drawn(people: int, size: int, seed: int) -> torch.Tensor:
    """Rows [M, size] of records of a population that make up batches."""
    count = max(_FEWEST, _SENT // size)
    generator = Seeded(seed).torch_generator("batches that are simulated")
    orders = -(-count * size // people)
    drawn = torch.cat([torch.randperm(people, generator=generator) for _ in range(orders)])
    return drawn[: count * size].reshape(count, size)


def _sent(
    task: Task,
    weights: torch.Tensor,
    people: Batch,
    rows: torch.Tensor,
    training: LocalTraining,
    made: int,
) -> Iterator[torch.Tensor]:
    """The updates [b, m] at weights [m] of some batches after the others."""
    inputs, labels = (
        each if people.shared else each[0] for each in (people.inputs, people.labels)
    )
    update = vmap(lambda x, y: client_update(task, weights, x, y, training))
    for start, stop in blocks(len(rows), made // (task.layout.size * rows.shape[1])):
        some = rows[start:stop].to(weights.device)
        yield update(inputs[some], labels[some])


def _whitening(rows: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Multiplies vectors [..., k] by (I + Σ_i a_i a_iᵀ / M)^-1/2, rows a_i [M, k]."""
    _, lengths, along = torch.linalg.svd(rows / len(rows) ** 0.5, full_matrices=False)
    cut = 1 - (1 + lengths.square()).rsqrt()
    return lambda vectors: vectors - ((vectors @ along.T) * cut) @ along


def _variance(rows: torch.Tensor) -> torch.Tensor:
    """Of each coordinate [1, k], by centred rows [1, n, k] and one more that is like the mean.

    So a coordinate that none of the rows has touched is not taken for certain.
    """
    squares = rows.square().sum(1)
    found = (squares + squares.mean(1, keepdim=True) / rows.shape[1]) / rows.shape[1]
    return found.clamp(min=torch.finfo(rows.dtype).tiny)
