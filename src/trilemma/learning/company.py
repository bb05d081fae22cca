"""BatchNorm as one record meets it: in a batch whose others are known in law only.

A batch's statistics are means over its records, so a batch of S records and with it an update is
nearly a sum over records: each is normalised by what the others have on average and by its own
S-th part, and moves what the others' losses see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.func import functional_call, grad, vmap

from trilemma.learning.modules import batch_norms

if TYPE_CHECKING:
    from torch.nn.modules.batchnorm import _BatchNorm

    from trilemma.learning.tasks import Task

__all__ = ["Company"]

Moments = list[tuple[torch.Tensor, torch.Tensor]]
"""Two numbers for each channel, of every call of BatchNorm in their order: each [U, C]."""


@dataclass(frozen=True, eq=False)
class Company:
    """The others of a batch of `size` records, for U units at a model each.

    `moments`: means μ and variances v [U, C] of what BatchNorm reads, over some records. `slopes`:
    λ = dL/dμ and κ = dL/dv [U, C] of their mean loss L, with all that follows behind.
    """

    moments: Moments
    slopes: Moments
    size: int

    @classmethod
    def of(
        cls,
        task: Task,
        tensors: dict[str, torch.Tensor],
        inputs: torch.Tensor,
        labels: torch.Tensor,
        size: int,
        *,
        shared: bool,
    ) -> Company:
        """By records [n, ...] that all units share, or [U, n, ...]; tensors [U, ...] by name."""

        def moments(named: dict[str, torch.Tensor], x: torch.Tensor) -> Moments:
            seen: Moments = []

            def measured(norm: _BatchNorm, read: torch.Tensor) -> torch.Tensor:
                seen.append(_moments(read))
                return _normalised(norm, read, *seen[-1])

            _outputs(task, named, x, measured)
            return seen

        def loss(
            shifts: Moments, named: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
        ) -> torch.Tensor:
            left = iter(shifts)

            def shifted(norm: _BatchNorm, read: torch.Tensor) -> torch.Tensor:
                (mean, variance), (by_mean, by_variance) = _moments(read), next(left)
                return _normalised(norm, read, mean + by_mean, variance + by_variance)

            return task.loss_of(_outputs(task, named, x, shifted), y)

        place = None if shared else 0
        found = vmap(moments, (0, place))(tensors, inputs)
        none = [(torch.zeros_like(mean), torch.zeros_like(mean)) for mean, _ in found]
        slopes = vmap(grad(loss), (0, 0, place, place))(none, tensors, inputs, labels)
        return cls(found, slopes, size)

    @property
    def met(self) -> tuple[Moments, Moments]:
        """What of it differs between units."""
        return self.moments, self.slopes

    def loss(
        self,
        task: Task,
        named: dict[str, torch.Tensor],
        met: tuple[Moments, Moments],
        record: torch.Tensor,
        label: torch.Tensor,
    ) -> torch.Tensor:
        """What a record [...] adds to S times the batch's loss; `met` is one unit's part.

        ℓ(record) + (1 - 1/S) Σ (λ·a + κ·b), a its mean and b its mean square around μ where
        BatchNorm reads it. There it is normalised by μ' = μ + (a - μ)/S and
        v' = v + (b - v)/S - (a - μ)²/S².
        """
        left, share = iter(zip(*met, strict=True)), 1 / self.size
        felt = []

        def joined(norm: _BatchNorm, read: torch.Tensor) -> torch.Tensor:
            (mean, variance), (by_mean, by_variance) = next(left)
            own, around = _moments(read, mean)
            felt.append((by_mean * own + by_variance * around).sum())
            step = share * (own - mean)
            spread = variance + share * (around - variance) - step.square()
            return _normalised(norm, read, mean + step, spread)

        outputs = _outputs(task, named, record[None], joined)
        return task.loss_of(outputs, label[None]) + (1 - share) * torch.stack(felt).sum()


def _outputs(
    task: Task,
    named: dict[str, torch.Tensor],
    inputs: torch.Tensor,
    normalise: Callable[[_BatchNorm, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    with _replaced(task.model, normalise):
        outputs: torch.Tensor = functional_call(task.model, named, (inputs,))
    return outputs


@contextmanager
def _replaced(
    model: torch.nn.Module, normalise: Callable[[_BatchNorm, torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Has `normalise` in the place of what BatchNorm does in train mode."""
    norms = batch_norms(model)
    for norm in norms:
        norm.__dict__["forward"] = partial(normalise, norm)
    try:
        yield
    finally:
        for norm in norms:
            del norm.__dict__["forward"]


def _moments(
    read: torch.Tensor, centre: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean [C] and mean square [C] around the centre (None: the mean) of [n, C, ...]."""
    over = [0, *range(2, read.ndim)]
    mean = read.mean(over)
    middle = _by_channel(mean if centre is None else centre, read)
    return mean, (read - middle).square().mean(over)


def _normalised(
    norm: _BatchNorm, read: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor
) -> torch.Tensor:
    scale = (variance + norm.eps).rsqrt()
    if norm.affine:
        scale = scale * norm.weight
    made = (read - _by_channel(mean, read)) * _by_channel(scale, read)
    return made + _by_channel(norm.bias, read) if norm.affine else made


def _by_channel(numbers: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    return numbers.reshape(-1, *[1] * (read.ndim - 2))
