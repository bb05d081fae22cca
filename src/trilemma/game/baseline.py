"""What the best constant answer reaches on the test records: no more, and nothing was learnt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.game.scenario import Scenario

__all__ = ["constant_metric"]

_STEPS: Final = 60
_SETTLED: Final = 1e-2  # of the gradient at zero
_NOISE: Final = 1e-12  # of the loss
_AT_ONCE: Final = 1 << 26  # numbers of outputs
_MOST: Final = 1 << 28  # of all records that a constant is fitted to

_Slope = tuple[float, torch.Tensor]


def constant_metric(scenario: Scenario) -> float | None:
    """The metric of one and the same answer for every test record; None where there is none.

    Of classes without a metric that is the majority's share. Else the answer is the output that
    minimises the loss, by L-BFGS, the same at every place where labels have a class for each place
    of the outputs. There is none where a constant is no output for the loss or the metric, nor for
    a loss that has no least value over all outputs, as of log-probabilities.
    """
    records = scenario.test_records
    labels = records.labels.to(scenario.device)
    if scenario.classes is not None and scenario.metric is None:
        return float(torch.bincount(labels).max()) / len(labels)
    weights = scenario.task.layout.flatten(dict(scenario.task.model.named_parameters())).detach()
    with torch.no_grad():
        like = scenario.task.outputs(weights, records.inputs[:1].to(scenario.device))[0]
    try:
        answer = _fitted(scenario, like, labels)
        if answer is None:
            return None
        value = _judged(scenario, answer.to(like).expand(like.shape), labels)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # the user's loss or metric, which may raise anything of a constant
        return None
    return value if math.isfinite(value) else None


def _fitted(scenario: Scenario, like: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """The constant output of least loss, in the shape of outputs [...] or 1 at every place."""
    slope = _slope(scenario, like, labels)
    found = [(start, *slope(start)) for start in _starts(like, labels)]
    found = [item for item in found if math.isfinite(item[1]) and torch.isfinite(item[2]).all()]
    if not found:
        return None
    steep = next((norm for *_, gradient in found if (norm := float(gradient.norm())) > 0), 0.0)
    answer, least, _ = min(found, key=lambda item: item[1])
    if steep <= _NOISE * abs(least):
        return answer
    search = torch.optim.LBFGS([answer], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def step() -> float:
        loss, gradient = slope(answer)
        answer.grad = gradient / steep  # L-BFGS ends at gradients below 1e-7
        return loss / steep

    search.step(step)  # type: ignore[no-untyped-call]  # of torch
    return answer if slope(answer)[1].norm() <= _SETTLED * steep else None


def _starts(like: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    """Where to begin: zero, and the mean label or log p_c, p_c the share of places of class c."""
    if labels.is_floating_point():
        starts = [labels.double().mean(0)] if labels.shape[1:] == like.shape else []
        return [like.new_zeros(like.shape, dtype=torch.float64), *starts]
    shape, starts = tuple(like.shape), []
    for axis, size in enumerate(shape):
        if shape[:axis] + shape[axis + 1 :] == labels.shape[1:]:
            named = labels[(labels >= 0) & (labels < size)].long()  # padding has a number outside
            shares = torch.bincount(named, minlength=size).double() / max(1, len(named))
            wide = [1] * axis + [size] + [1] * (like.ndim - axis - 1)
            starts.append(shares.clamp(min=1e-12).log().view(wide))
    first = starts[0] if starts else like
    return [torch.zeros_like(first, dtype=torch.float64), *starts]


def _slope(
    scenario: Scenario, like: torch.Tensor, labels: torch.Tensor
) -> Callable[[torch.Tensor], _Slope]:
    """The loss of a constant output, and its gradient, on records spread over all of them."""
    count = min(len(labels), max(1, _MOST // like.numel()))
    rows = torch.linspace(0, len(labels) - 1, count, device=labels.device).round().long()
    some = labels[rows].double() if labels.is_floating_point() else labels[rows]
    size = min(count, math.ceil(count * like.numel() / _AT_ONCE))
    # Every so many records: padding is alike in all parts.
    parts = [some[first::size].contiguous() for first in range(size)]

    def slope(answer: torch.Tensor) -> _Slope:
        at = answer.detach().requires_grad_()
        total, gradient = 0.0, torch.zeros_like(at)
        for part in parts:
            with torch.enable_grad():
                loss = scenario.task.loss_of(_repeated(at.expand(like.shape), part), part)
            (own,) = torch.autograd.grad(loss, at)
            total += float(loss.detach()) * len(part) / count
            gradient += own * len(part) / count
        return total, gradient

    return slope


def _repeated(answer: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The answer for each record [n, ...], of which losses may take a view()."""
    return answer.expand(len(labels), *answer.shape).contiguous()


def _judged(scenario: Scenario, answer: torch.Tensor, labels: torch.Tensor) -> float:
    outputs = _repeated(answer, labels)
    if scenario.metric is not None:
        return float(scenario.metric(outputs, labels))
    return -float(scenario.task.loss_of(outputs, labels))
