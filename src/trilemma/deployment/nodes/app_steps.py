"""How an app trains by itself, as a node sees it from outside: steps, their rate and batches.

A claim is for updates made in a certain way. `local_update` makes them so; an app with a loop of
its own in PyTorch is watched, and refused where it trains otherwise. That catches mistakes, not
an app that hides what it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining

__all__ = ["Step", "require_training", "watched_steps"]

_PLAIN: Final = ("momentum", "dampening", "weight_decay", "nesterov", "maximize")


@dataclass(frozen=True)
class Step:
    """One step of an optimiser: which, its rates, settings beyond plain SGD, and its records.

    `batch` counts the records that passed the model since the step before.
    """

    optimizer: str
    rates: tuple[float, ...]
    beyond: tuple[str, ...]
    batch: int


@contextmanager
def watched_steps() -> Iterator[list[Step]]:
    """Collects the steps that PyTorch's optimisers take inside, in this process."""
    steps: list[Step] = []
    seen = {"depth": 0, "batch": 0}

    def enters(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if not seen["depth"] and torch.is_grad_enabled():
            first = next((item for item in inputs if isinstance(item, torch.Tensor)), None)
            seen["batch"] += 0 if first is None or not first.ndim else len(first)
        seen["depth"] += 1

    def leaves(*_: Any) -> None:
        seen["depth"] -= 1

    def steps_on(optimizer: Optimizer, *_: Any) -> None:
        groups = optimizer.param_groups
        beyond = {name for group in groups for name in _PLAIN if group.get(name)}
        rates = tuple(float(group["lr"]) for group in groups)
        kind = type(optimizer).__name__
        steps.append(Step(kind, rates, tuple(sorted(beyond)), seen["batch"]))
        seen["batch"] = 0

    hooks = (
        register_module_forward_pre_hook(enters),
        register_module_forward_hook(leaves, always_call=True),
        register_optimizer_step_pre_hook(steps_on),
    )
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def require_training(steps: Sequence[Step], measured: LocalTraining) -> None:
    """Raises unless these steps are those that were measured, as far as one can see.

    >>> require_training([Step("SGD", (0.1,), (), 4)], LocalTraining(lr=0.1, batch=4))
    """
    if difference := _difference(steps, measured):
        raise InvalidInput(
            f"{difference}; train by local_update, which does what was measured, or measure "
            "again what this app does."
        )


def _difference(steps: Sequence[Step], measured: LocalTraining) -> str | None:
    if not steps:
        return "the app takes no step of a PyTorch optimiser in this process, so nothing shows"
    if len(steps) != measured.steps:
        return f"the app takes {len(steps)} steps, and {measured.steps} were measured"
    for step in steps:
        if step.optimizer != "SGD" or step.beyond:
            more = f" with {', '.join(step.beyond)}" if step.beyond else ""
            return f"the app steps by {step.optimizer}{more}, and plain SGD was measured"
        for rate in step.rates:
            if not math.isclose(rate, measured.lr, rel_tol=1e-6):
                return f"the app steps at a rate of {rate:g}, and {measured.lr:g} was measured"
        if step.batch != measured.batch:
            return f"its steps have {step.batch} records, and {measured.batch} were measured"
    return None
