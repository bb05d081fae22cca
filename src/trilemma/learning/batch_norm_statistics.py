"""BatchNorm's running statistics as a part of the update that a client sends.

Who sends a network's whole state sends, besides its weights, what BatchNorm keeps of the batches:
r ← (1 - μ) r + μ b, b the mean or variance of the batch at hand. Here r are parameters with the
gradient μ (r - b) / lr, so that a local step w - lr · g moves them just so; and whoever trains,
protects or attacks an update treats them as any other coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import handle_torch_function, has_torch_function

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.updates import Layout

__all__ = ["applied", "rates", "send_statistics", "tell", "told"]


_KEPT: Final = {"running_mean": 0.0, "running_var": 1.0}  # and what they start with


def send_statistics(norm: _BatchNorm, name: str, lr: float) -> None:
    """Makes parameters of a layer's running statistics, as they are before the first batch.

    `lr` is that of a local step. `check_statistics` tells where that is not what torch does.
    """
    if type(norm).forward is not _BatchNorm.forward:
        raise InvalidInput(
            f"sends_statistics is for nn.BatchNorm1d, 2d and 3d, but {name!r} is a "
            f"{type(norm).__name__} with a forward() of its own; use one of those, or leave "
            f"sends_statistics out."
        )
    if norm.momentum is None:
        raise InvalidInput(
            f"BatchNorm {name!r} averages over all batches (momentum=None), so what it sends "
            f"depends on how many there were; give it a momentum, or do not send its statistics."
        )
    like = norm.running_mean
    assert like is not None, "a layer that keeps statistics has some"
    rate = norm.momentum / lr
    norm.track_running_stats = False  # torch would change them in place, and in batches alone
    for kept, first in _KEPT.items():
        delattr(norm, kept)
        norm.register_parameter(kept, nn.Parameter(torch.full_like(like, first)))
    norm.register_forward_hook(_ReportingStatistics(rate), with_kwargs=True)


@contextmanager
def applied(model: nn.Module) -> Iterator[None]:
    """Has layers whose running statistics are sent work with those, as a model in use does."""
    layers = [module for module in model.modules() if _telling(module) and module.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


def _telling(module: nn.Module) -> list[_ReportingStatistics]:
    return [
        hook for hook in module._forward_hooks.values() if isinstance(hook, _ReportingStatistics)
    ]


def rates(model: nn.Module, layout: Layout) -> torch.Tensor | None:
    """μ / lr [m] of each coordinate that is a running statistic, 0 of all others.

    None where none is sent.
    """
    found = {name: hook.rate for name, item in model.named_modules() for hook in _telling(item)}
    if not found:
        return None
    owners = [name.rpartition(".")[::2] for name in layout.names]
    owned = [found.get(owner, 0.0) if own in _KEPT else 0.0 for owner, own in owners]
    return torch.repeat_interleave(torch.tensor(owned), torch.tensor(layout.sizes))


@dataclass(frozen=True)
class _ReportingStatistics:
    """A hook behind BatchNorm; `rate` is μ / lr."""

    rate: float

    def __call__(
        self,
        norm: nn.Module,
        args: tuple[torch.Tensor, ...],
        named: Mapping[str, torch.Tensor],
        made: torch.Tensor,
    ) -> torch.Tensor:
        if not norm.training:
            return made
        read = args[0] if args else named["input"]
        return tell(made, read, norm.running_mean, norm.running_var, self.rate)


def tell(
    made: torch.Tensor, read: torch.Tensor, mean: Any, variance: Any, rate: float
) -> torch.Tensor:
    """What BatchNorm made of what it `read` [n, C, ...]: kept statistics [C] get their gradient.

    Modes of torch functions meet it, so that they may take other statistics for the batch's.
    """
    if has_torch_function((made,)):
        same: torch.Tensor = handle_torch_function(tell, (made,), made, read, mean, variance, rate)
        return same
    over = [0, *range(2, read.ndim)]
    return told(made, mean, variance, read.mean(over), read.var(over), rate)


def told(
    made: torch.Tensor,
    kept_mean: torch.Tensor,
    kept_variance: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    rate: float,
) -> torch.Tensor:
    """`made` as it is; the kept ones get the gradient rate · (kept - found), whatever the loss."""
    given = made, kept_mean, kept_variance, mean, variance, rate
    same: torch.Tensor = _StatisticsReport.apply(*given)  # type: ignore[no-untyped-call]
    return same


class _StatisticsReport(torch.autograd.Function):
    """No term of a loss could do this: its gradient would reach the weights through b, too.

    What is found has no gradient here, and gradients of what is told of it do lead to it. Whoever
    differentiates gradients must not let the kept ones depend on what he differentiates by.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(made: torch.Tensor, *_: Any) -> torch.Tensor:
        return made.view_as(made)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _: torch.Tensor) -> None:
        *tensors, ctx.rate = inputs
        ctx.save_for_backward(*tensors[1:])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        kept_mean, kept_variance, mean, variance = ctx.saved_tensors
        rate = ctx.rate
        by_mean, by_variance = rate * (kept_mean - mean), rate * (kept_variance - variance)
        return gradient, by_mean, by_variance, None, None, None

    @staticmethod
    def jvp(_: Any, made: torch.Tensor, *__: torch.Tensor | None) -> torch.Tensor:
        return made.view_as(made)
