"""What the best constant answer reaches on the test records: no more, and nothing was learnt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = ["constant_metric"]

_STEPS: Final = 60
_TRIED: Final = 1024  # records that a constant is fitted to
_SETTLED: Final = 1e-2  # of the loss's gradient at zero
_AT_ONCE: Final = 1 << 26  # numbers of outputs


def constant_metric(scenario: Scenario) -> float | None:
    """The metric of one and the same answer for every test record; None where there is none.

    With classes that is log p_c, p_c the share of class c, whose accuracy is the majority's. Else
    it is the output that minimises the loss, by L-BFGS, the same at every place where each token
    or pixel has a class; there is none for a loss that has no least value over all outputs, as of
    log-probabilities.
    """
    records = scenario.test_records
    labels = records.labels.to(scenario.device)
    if scenario.classes is not None:
        shares = torch.bincount(labels, minlength=scenario.classes) / len(labels)
        return _judged(scenario, shares.clamp(min=1e-12).log(), labels)
    weights = scenario.task.layout.flatten(dict(scenario.task.model.named_parameters())).detach()
    with torch.no_grad():
        like = scenario.task.outputs(weights, records.inputs[:1].to(scenario.device))[0]
    fitted = _fitted(scenario, like, labels[:_TRIED])
    return None if fitted is None else _judged(scenario, fitted, labels)


def _fitted(scenario: Scenario, like: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """The constant output [...] of least loss."""
    start = _log_shares(like, labels)
    if start is None:
        start = like.new_zeros(like.shape, dtype=torch.float64)
    answer = torch.zeros_like(start).requires_grad_()
    labels = labels.double() if labels.is_floating_point() else labels
    parts = torch.split(labels, max(1, _AT_ONCE // like.numel()))
    search = torch.optim.LBFGS([answer], max_iter=_STEPS, line_search_fn="strong_wolfe")
    gradients: list[float] = []

    def step() -> float:
        search.zero_grad()
        total = 0.0
        for part in parts:
            outputs = answer.expand(len(part), *like.shape).contiguous()  # for view(), in losses
            loss = scenario.task.loss_of(outputs, part) * (len(part) / len(labels))
            loss.backward()  # type: ignore[no-untyped-call]  # of torch
            total += float(loss.detach())
        gradients.append(math.inf if answer.grad is None else float(answer.grad.norm()))
        return total

    try:
        step()  # the gradient at zero
        answer.data.copy_(start)
        search.step(step)  # type: ignore[no-untyped-call]  # of torch
        step()  # the gradient where the search ended
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None  # a loss that a constant is no output for
    found = answer.detach().to(like).expand(like.shape)
    if not torch.isfinite(found).all() or not gradients[-1] <= max(_SETTLED * gradients[0], 1e-6):
        return None
    return found


def _log_shares(like: torch.Tensor, labels: torch.Tensor) -> torch.Tensor | None:
    """log p_c, in the shape of outputs [...] but 1 at every place; None of other labels.

    p_c is the share of places that have class c.
    """
    if labels.is_floating_point():
        return None
    shape = tuple(like.shape)
    axes = [
        axis for axis in range(like.ndim) if shape[:axis] + shape[axis + 1 :] == labels.shape[1:]
    ]
    if len(axes) != 1:
        return None
    size = shape[axes[0]]
    named = labels[(labels >= 0) & (labels < size)]  # padding has a number outside
    shares = torch.bincount(named.long(), minlength=size).double() / max(1, len(named))
    wide = [1] * like.ndim
    wide[axes[0]] = size
    return shares.clamp(min=1e-12).log().view(wide)


def _judged(scenario: Scenario, answer: torch.Tensor, labels: torch.Tensor) -> float | None:
    outputs = answer.expand(len(labels), *answer.shape).contiguous()
    try:
        if scenario.metric is not None:
            value = float(scenario.metric(outputs, labels))
        elif scenario.classes is not None:
            value = float((outputs.argmax(1) == labels).float().mean())
        else:
            value = -float(scenario.task.loss_of(outputs, labels))
    except (RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None
