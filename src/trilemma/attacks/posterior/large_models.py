"""The table of a large model's updates, of which the coordinates that tell most are read.

Where batches are normalised, an update is no sum over records: u = ū + Σ_i β (c_i - c̄) / S + e,
contributions c_i as `BatchNormContext` has them. Then batches of the population are simulated:
they give the mean ū, for each tensor the factor β (in deep networks near 1 at the end and below .3
in front, where what a record does is lost in what its batch makes of it), and the distribution of
e.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.posterior.candidate_updates import batch_contexts, contributions, simulable
from trilemma.attacks.posterior.inner_products import Table, tabulate
from trilemma.attacks.posterior.posterior_inputs import Batch, blocks, held_at_once
from trilemma.attacks.posterior.turned_axes import Axes
from trilemma.entropy import Seeded
from trilemma.learning import RecordLoss, client_update, record_gradients, written_out

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining, Products, Task

__all__ = ["Read", "drawn_batches", "whitening"]

_MADE: Final = 2**23  # numbers of which some are read: updates times coordinates
_LOOKED: Final = 64  # records by which the coordinates that are read are chosen
_SENT: Final = 384  # records of simulated batches
_FEWEST: Final = 24  # batches, of however many records


@dataclass(frozen=True, eq=False)
class Read:
    """What is read of one unit: k coordinates on which the population varies most.

    The update [1, 1, k], and contributions of population and candidates [1, n, k]; `left` [M, k]
    is what they leave unexplained of M batches' updates, around its mean (None: contributions add
    up), and `norms` [M] are how long those are, where updates are clipped.
    """

    update: torch.Tensor
    population: torch.Tensor
    candidates: torch.Tensor
    left: torch.Tensor | None = None
    norms: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        path: Sequence[torch.Tensor],
        update: torch.Tensor,
        known: torch.Tensor,
        population: Batch,
        candidate_sets: Batch,
        training: LocalTraining,
        seed: int,
        *,
        clipped: bool = False,
    ) -> Read:
        """Contributions along a path, and of an update [1, m] what is `known` [1, m] of it.

        Where updates are `clipped`, it matters how long those of batches are.
        """
        sizes, made = list(task.layout.sizes), held_at_once(_MADE, update)
        beside = batch_contexts(task, path, population, training)
        first = contributions(task, path, population.rows(0, _LOOKED), training, beside)[0]
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
            torch.cat([shown[None], *read(population, len(first))], 1),
            torch.cat(read(candidate_sets, 0), 1),
        )
        if beside is None or not simulable(task, training, population):
            return found
        rows, sent, norms = drawn_batches(population.count, training.unit_size, seed), [], []
        for item in _sent(task, path[0][0], population, rows, training, made):
            sent.append(axes.read(item))
            if clipped:
                squares = [written_out(part).square().sum(1) for part in item]
                norms.append(torch.stack(squares).sum(0).sqrt())
        fitted = found.fitted(rows, torch.cat(sent), axes.tensors)
        return replace(fitted, norms=torch.cat(norms)) if clipped else fitted

    def fitted(self, rows: torch.Tensor, sent: torch.Tensor, tensors: torch.Tensor) -> Read:
        """The same with contributions that fit the updates [M, k] of batches of the population.

        In a batch of records `rows` [M, S] they are β_l times as far from their mean, on the
        tensor l (that of each coordinate: `tensors` [k]), as the regression of what batches send
        on the mean of their records' contributions says; the mean becomes what batches send.
        """
        population, mean = self.population[0], sent.mean(0)
        gaps, used = sent - mean, sent.new_zeros(len(rows), len(population))
        used.scatter_add_(1, rows.to(sent.device), torch.ones_like(rows).to(sent))
        parts = used @ population / rows.shape[1]
        parts -= parts.mean(0)
        places, count = tensors.to(sent.device), 1 + max(tensors.tolist(), default=0)
        along, squares = (
            sent.new_zeros(count).index_add_(0, places, value.sum(0))
            for value in (parts * gaps, parts * parts)
        )
        factor = (along / squares.clamp(min=torch.finfo(sent.dtype).tiny))[places]
        centre = population.mean(0)
        return replace(
            self,
            population=mean + factor * (self.population - centre),
            candidates=mean + factor * (self.candidates - centre),
            left=gaps - factor * parts,
        )

    def table(
        self,
        total: torch.Tensor,
        own: torch.Tensor | None,
        noise: torch.Tensor,
        batches: torch.Tensor,
    ) -> Table:
        """Around the population's mean; anchors: the gap to `total` [1] of it, and the mean.

        With `own` [1] times a record's variance, coordinates are measured in units of that, of the
        noise [1] and of `batches` [1] times the variance that a batch's sum leaves unexplained,
        the covariance of which is taken out besides.
        """
        mean = self.population.mean(1, keepdim=True)
        rows = [self.population - mean, self.candidates - mean]
        anchors = torch.cat([self.update - total[:, None, None] * mean, mean], 1)
        if own is not None:
            spread = own[:, None] * _variance(rows[0]) + noise[:, None]
            if self.left is None:
                unit = spread.rsqrt()[:, None]
                rows, anchors = [row * unit for row in rows], anchors * unit
            else:
                left = batches.sqrt() * self.left
                unit = (spread + _variance(left[None])).rsqrt()[:, None]
                whitened = whitening(left * unit[0])
                rows = [whitened(row * unit) for row in rows]
                anchors = whitened(anchors * unit)
        return tabulate(
            (lambda start, stop: rows[0][:, start:stop], rows[0].shape[1]),
            (lambda start, stop: rows[1][:, start:stop], rows[1].shape[1]),
            anchors,
            torch.full_like(total, mean.shape[2]),
        )


def drawn_batches(population: int, size: int, seed: int) -> torch.Tensor:
    """Rows [M, size] of records of a population that make up batches."""
    count = max(_FEWEST, _SENT // size)
    generator = Seeded(seed).torch_generator("batches that are simulated")
    return torch.randint(population, (count, size), generator=generator)


def _sent(
    task: Task,
    weights: torch.Tensor,
    population: Batch,
    rows: torch.Tensor,
    training: LocalTraining,
    made: int,
) -> Iterator[Sequence[torch.Tensor | Products]]:
    """The updates at weights [m] of some batches after the others, tensor by tensor."""
    inputs, labels = (
        value if population.shared else value[0]
        for value in (population.inputs, population.labels)
    )
    steps = task.way.vmap(lambda x, y: client_update(task, weights, x, y, training))
    mean = RecordLoss("of a batch", lambda named, _, x, y: task.loss_of(task.run(named, x), y))
    for start, stop in blocks(len(rows), made // (task.layout.size * rows.shape[1])):
        some = rows[start:stop].to(weights.device)
        if training.algorithm == "fedsgd":
            yield record_gradients(task, mean, weights, (), inputs[some], labels[some])
        else:
            updates = steps(inputs[some], labels[some])
            yield torch.split(updates, list(task.layout.sizes), 1)


def whitening(rows: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Multiplies vectors [..., k] by (I + AᵀA)^-1/2, A the rows [M, k] divided by √M.

    = I - Aᵀ V diag(1 / (1 + q + √(1 + q))) Vᵀ A, with AAᵀ = V diag(q) Vᵀ.
    """
    rows = rows / len(rows) ** 0.5
    products = (rows @ rows.T).nan_to_num(0.0, 0.0, 0.0)  # a diverged unit fails, later
    squares, turn = torch.linalg.eigh(products)
    longer = 1 + squares.clamp(min=0)
    cut = (turn / (longer + longer.sqrt())) @ turn.T @ rows
    return lambda vectors: vectors - (vectors @ rows.T) @ cut


def _variance(rows: torch.Tensor) -> torch.Tensor:
    """Of each coordinate [1, k], by centred rows [1, n, k] and one more that is like the mean.

    So a coordinate that none of the rows has touched is not taken for certain.
    """
    squares = rows.square().sum(1)
    found = (squares + squares.mean(1, keepdim=True) / rows.shape[1]) / rows.shape[1]
    return found.clamp(min=torch.finfo(rows.dtype).tiny)
