"""Losses over class indices, and what they are for soft labels, over which attacks search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch.func import functional_call
from torch.nn import CrossEntropyLoss, Module, NLLLoss
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

from trilemma.learning.constants import converted
from trilemma.learning.precision import whole_floats
from trilemma.learning.ways import Way

__all__ = ["Loss", "class_loss", "differ", "in_precision", "label_batches"]

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_PLAIN: Final = Way()
_WEIGHTED: Final = (CrossEntropyLoss, NLLLoss)  # themselves: what derives from them may differ
_ATTACKED: Final = (torch.float32, torch.float64)
_AGREE: Final = 1e-3  # relative, for two ways to compute one loss in single precision
_TINY: Final = 1e-6
_MOST_CLASSES: Final = 128  # that are tried, spread over all where there are more


def in_precision(loss: Loss, trained: torch.dtype, outputs: torch.dtype) -> Loss:
    """The loss with what it holds in the trained type, if it is a module, in that of outputs.

    Half the bits are those of autocast, which leaves to the loss what it makes of them.
    """
    if not isinstance(loss, Module) or type(loss) in _WEIGHTED or outputs not in _ATTACKED:
        return loss
    held = converted(loss, trained, outputs)
    if not held:
        return loss
    return lambda made, targets: functional_call(loss, held, (made, targets))


def class_loss(
    loss: Loss, outputs: torch.Tensor, targets: torch.Tensor, way: Way = _PLAIN
) -> torch.Tensor:
    """`loss` of outputs [S, C] for class indices [S] or soft labels [S, C].

    Soft labels weigh the loss of each class, (1/S) Σ_i Σ_c y_ic · loss(outputs_i, c): for one-hot
    rows the loss itself, where it is the mean over its records. CrossEntropyLoss and NLLLoss with
    class weights w are Σ_i Σ_c y_ic w_c ℓ_ic / Σ_i Σ_c y_ic w_c in both forms.
    """
    if isinstance(loss, _WEIGHTED) and type(loss) in _WEIGHTED:
        return _weighted(loss, outputs, targets)
    if loss is cross_entropy and _classes_of(outputs, targets):
        return _mean_entropy(outputs, targets)
    if loss is cross_entropy or not targets.is_floating_point():
        return loss(outputs, targets)

    def one(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return loss(output[None], label[None])

    labels = torch.arange(outputs.shape[1], device=outputs.device)
    table: torch.Tensor = way.vmap(way.vmap(one, (None, 0)), (0, None))(outputs, labels)
    return (targets * table).sum() / outputs.shape[0]


def _weighted(
    loss: CrossEntropyLoss | NLLLoss, outputs: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Torch's own, with the class weights in the outputs' precision and on their device."""
    weight = None if loss.weight is None else loss.weight.to(outputs)
    ignored, reduction = loss.ignore_index, loss.reduction
    smoothing = loss.label_smoothing if isinstance(loss, CrossEntropyLoss) else 0.0
    soft, classes = targets.is_floating_point(), outputs.shape[1]
    if isinstance(loss, CrossEntropyLoss):
        plain = weight is None and not smoothing and not 0 <= ignored < classes
        if plain and reduction == "mean" and _classes_of(outputs, targets):
            return _mean_entropy(outputs, targets)
        if not soft or (weight is None and not 0 <= ignored < classes):
            return cross_entropy(
                outputs,
                targets,
                weight=weight,
                ignore_index=ignored if not soft else -100,  # soft labels allow no other
                reduction=reduction,
                label_smoothing=smoothing,
            )
        outputs = log_softmax(outputs, 1)
    elif not soft:
        return nll_loss(outputs, targets, weight=weight, ignore_index=ignored, reduction=reduction)
    return _soft(outputs, targets, weight, ignored, smoothing, reduction)


def _soft(
    log_probability: torch.Tensor,
    targets: torch.Tensor,
    weight: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    reduction: str,
) -> torch.Tensor:
    """The loss of soft labels [S, C], each class by its weight, which torch's own has not."""
    classes = targets.shape[1]
    counted = targets * (torch.arange(classes, device=targets.device) != ignored)
    weight = torch.ones_like(log_probability[0]) if weight is None else weight
    total = -(counted * weight * log_probability).sum()
    if smoothing:
        even = -(counted.sum(1, keepdim=True) * weight * log_probability).sum() / classes
        total = (1 - smoothing) * total + smoothing * even
    return total if reduction == "sum" else total / (counted * weight).sum()


def _mean_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(1/S) Σ_i -log softmax(outputs_i)[y_i], under vmap to the bit torch's own.

    That looks for labels to be ignored, which no records have, and reads sympy there to check
    their shapes: half a second of every process.
    """
    chosen = log_softmax(outputs, 1).gather(1, targets[:, None])
    return (-chosen).sum() / len(outputs)


def _classes_of(outputs: torch.Tensor, targets: torch.Tensor) -> bool:
    """Whether they are scores [S, C] and class indices [S]; torch knows other forms besides."""
    whole = targets.dtype == torch.long and outputs.dtype in _ATTACKED
    return whole and outputs.ndim == 2 and targets.shape == outputs.shape[:1]


def label_batches(classes: int, size: int) -> Iterator[torch.Tensor]:
    """Class indices [size] in batches that hold every class, then two with duplicates."""
    tried = torch.linspace(0, classes - 1, min(classes, _MOST_CLASSES)).round().long()
    for start in range(0, len(tried), size):
        yield tried[torch.arange(start, start + size) % len(tried)]
    yield tried[torch.arange(size) // 2 % len(tried)]
    yield tried[-1:].expand(size)


@whole_floats()
def differ(
    one: Callable[[torch.Tensor], torch.Tensor],
    other: Callable[[torch.Tensor], torch.Tensor],
    at: torch.Tensor,
    way: Way = _PLAIN,
) -> bool:
    """Whether two functions of a tensor differ there, in their value or in their gradient."""
    (gradient, value), (other_gradient, other_value) = (
        way.grad_and_value(item)(at) for item in (one, other)
    )
    return any(
        bool((a - b).norm() > _AGREE * torch.maximum(a.norm(), b.norm()) + _TINY)
        for a, b in ((value, other_value), (gradient, other_gradient))
    )
