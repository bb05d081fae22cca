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


def constant_metric(scenario: Scenario) -> float | None:
    """The metric of one and the same answer for every test record; None where there is none.

    With classes that is log p_c, p_c the share of class c, whose accuracy is the majority's. Else
    it is the output that minimises the loss, by L-BFGS from zero; there is none for a loss that
    has no least value over all outputs, as of log-probabilities.
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
    answer = like.new_zeros(like.shape, dtype=torch.float64).requires_grad_()
    labels = labels.double() if labels.is_floating_point() else labels
    search = torch.optim.LBFGS([answer], max_iter=_STEPS, line_search_fn="strong_wolfe")
    gradients: list[float] = []

    def step() -> float:
        search.zero_grad()
        outputs = answer.expand(len(labels), *answer.shape)
        loss = scenario.task.loss_of(outputs, labels)
        loss.backward()  # type: ignore[no-untyped-call]  # of torch
        gradients.append(math.inf if answer.grad is None else float(answer.grad.norm()))
        return float(loss.detach())

    try:
        search.step(step)  # type: ignore[no-untyped-call]  # of torch
        step()  # the gradient where the search ended
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None  # a loss that a constant is no output for
    found = answer.detach().to(like)
    if not torch.isfinite(found).all() or not gradients[-1] <= max(_SETTLED * gradients[0], 1e-6):
        return None
    return found


def _judged(scenario: Scenario, answer: torch.Tensor, labels: torch.Tensor) -> float | None:
    outputs = answer.expand(len(labels), *answer.shape)
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
