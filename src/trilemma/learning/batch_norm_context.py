"""BatchNorm as one record meets it: in a batch whose others are known by their distribution only.

A batch's statistics are means over its records, so a batch of S records and with it an update is
nearly a sum over records: each is normalised by what the others have on average and by its own
S-th part, and moves what the others' losses see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

from trilemma.learning.batch_norm_statistics import tell, told
from trilemma.learning.recording.tracing import traced

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["BatchNormContext"]

_SIGNATURE: Final = inspect.signature(batch_norm)
Moments = list[tuple[torch.Tensor, torch.Tensor]]
"""Two numbers for each channel, of every call of BatchNorm in their order: each [U, C]."""


@dataclass(frozen=True, eq=False)
class BatchNormContext:
    """The others of a batch of `size` records, for U units at a model each.

    `moments`: means μ and variances v [U, C] of what BatchNorm reads, over some records.
    `gradients`: λ = dL/dμ and κ = dL/dv [U, C] of their mean loss L, with all that follows behind.
    """

    moments: Moments
    gradients: Moments
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
    ) -> BatchNormContext:
        """By records [n, ...] that all units share, or [U, n, ...]; tensors [U, ...] by name."""

        def moments(named: dict[str, torch.Tensor], x: torch.Tensor) -> Moments:
            seen: Moments = []

            def measured(call: _Call) -> torch.Tensor:
                seen.append(_moments(call.read))
                return call.normalised(*seen[-1])

            with _ReplacedCalls(measured):
                task.run(named, x)
            return seen

        def loss(
            shifts: Moments, named: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
        ) -> torch.Tensor:
            left = iter(shifts)

            def shifted(call: _Call) -> torch.Tensor:
                (mean, variance), (by_mean, by_variance) = _moments(call.read), next(left)
                return call.normalised(mean + by_mean, variance + by_variance)

            with _ReplacedCalls(shifted):
                outputs = task.run(named, x)
            return task.loss_of(outputs, y)

        place = None if shared else 0

        def both(x: torch.Tensor, y: torch.Tensor, *own: torch.Tensor) -> tuple[Moments, Moments]:
            named = dict(zip(tensors, own, strict=True))
            found = task.way.vmap(moments, (0, place))(named, x)
            none = [(torch.zeros_like(mean), torch.zeros_like(mean)) for mean, _ in found]
            gradients = task.way.vmap(task.way.grad(loss), (0, 0, place, place))(none, named, x, y)
            return found, gradients

        example = (inputs, labels, *tensors.values())
        run = traced(("batch norm", shared), task, both, example) if inputs.is_cuda else both
        return cls(*run(*example), size)

    @property
    def met(self) -> tuple[Moments, Moments]:
        """What of it differs between units."""
        return self.moments, self.gradients

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
        v' = v + (b - v)/S - (a - μ)²/S². Of running statistics that are sent its part is a, and b
        as torch counts it, by one place less than there are.
        """
        left, share = iter(zip(*met, strict=True)), 1 / self.size
        felt, seen = [], list[tuple[torch.Tensor, torch.Tensor]]()

        def joined(call: _Call) -> torch.Tensor:
            (mean, variance), (by_mean, by_variance) = next(left)
            own, around = _moments(call.read, mean)
            felt.append((by_mean * own + by_variance * around).sum())
            seen.append((own, around))
            step = share * (own - mean)
            spread = variance + share * (around - variance) - step.square()
            return call.normalised(mean + step, spread)

        def own_part(
            made: torch.Tensor,
            read: torch.Tensor,
            kept_mean: torch.Tensor,
            kept_variance: torch.Tensor,
            rate: float,
        ) -> torch.Tensor:
            own, around = seen[-1]  # of the call that made it
            places = self.size * read[:, 0].numel()
            around = around * places / (places - 1)
            return told(made, kept_mean, kept_variance, own, around, rate)

        with _ReplacedCalls(joined, own_part):
            outputs = task.run(named, record[None])
        return task.loss_of(outputs, label[None]) + (1 - share) * sum(felt)


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of BatchNorm: what it reads [n, C, ...], and its own numbers."""

    read: torch.Tensor
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    eps: float

    def normalised(self, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        """By a mean and a variance [C]."""
        scale = (variance + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight
        made = (self.read - _by_channel(mean, self.read)) * _by_channel(scale, self.read)
        return made if self.bias is None else made + _by_channel(self.bias, self.read)


class _ReplacedCalls(TorchFunctionMode):
    """Has `normalise` in the place of what BatchNorm does with the statistics of a batch.

    And `tells` (None: as it is) in the place of what is sent of them.
    """

    def __init__(
        self,
        normalise: Callable[[_Call], torch.Tensor],
        tells: Callable[..., torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.normalise, self.tells = normalise, tells

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func is tell and self.tells is not None:
            return self.tells(*args, **given)
        if func is not batch_norm:
            return func(*args, **given)
        told = _SIGNATURE.bind(*args, **given)
        told.apply_defaults()
        call = told.arguments
        if not call["training"]:
            return func(*args, **given)
        return self.normalise(_Call(call["input"], call["weight"], call["bias"], call["eps"]))


def _moments(
    read: torch.Tensor, centre: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean [C] and mean square [C] around the centre (None: the mean) of [n, C, ...]."""
    over = [0, *range(2, read.ndim)]
    mean = read.mean(over)
    middle = _by_channel(mean if centre is None else centre, read)
    return mean, (read - middle).square().mean(over)


def _by_channel(numbers: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    return numbers.reshape(-1, *[1] * (read.ndim - 2))
