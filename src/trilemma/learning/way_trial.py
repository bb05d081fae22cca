"""Which way a model is run: tried once on two records, and held against plain autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.learning.precision import whole_floats
from trilemma.learning.recording.tracing import NotRecordable, recorded
from trilemma.learning.ways import Way

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["way_of"]

_AGREE: Final = 1e-3  # of a gradient's norm
_Gradients = Callable[..., list[torch.Tensor]]


@whole_floats()
def way_of(
    task: Task, inputs: torch.Tensor, labels: torch.Tensor, *, attacked: bool = True
) -> Way:
    """The fastest way that gives a model's gradients on records [n, ...] as autograd does.

    Where it is not `attacked`, nothing is recorded or differentiated twice. A model that has no
    update even in plain autograd is left to the checks, which say so.
    """
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    # In double precision first, in which attacks compute as well and torch has fewer kernels.
    for dtype in (torch.float64, weights.dtype):
        example = _example(task, weights.to(dtype), inputs, labels)
        searched, once = attacked and inputs.is_floating_point(), ""
        expected = _tried(_gradients(task, Way("looped"), searched), example)
        if searched and isinstance(expected, str):
            once = expected
            expected = _tried(_gradients(task, Way("looped"), False), example)
        if not isinstance(expected, str):
            break
    else:
        return Way()
    run = _gradients(task, Way(), searched and not once)
    found = _tried(run, example)
    if isinstance(found, str):
        return Way("looped", f"torch.func cannot map it: {found}", once)
    if _differ(found, expected):
        return Way("looped", "under torch.func its gradients are others than autograd's", once)
    if not attacked:
        return Way(once=once)
    try:
        replay = recorded(run, example)
    except NotRecordable as error:
        return Way("vmapped", str(error), once)
    others = (0.5 * example[0].flip(0), *(item.flip(0) for item in example[1:]))
    if _differ(replay(*others), run(*others)):
        return Way("vmapped", "what it does depends on the numbers that it is given", once)
    return Way(once=once)


def _tried(function: _Gradients, example: tuple[torch.Tensor, ...]) -> list[torch.Tensor] | str:
    """What a function makes of an example, or what it raised: a model may raise anything."""
    try:
        return function(*example)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return first[:160].rstrip(".")


def _example(
    task: Task, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two models' weights [2, m], and a batch for each: of one record, or two for BatchNorm."""
    size = 2 if task.normalises_batches else 1
    rows = torch.arange(2 * size).reshape(2, size) % len(inputs)
    x, y = (
        value[rows].to(weights if value.is_floating_point() else weights.device)
        for value in (inputs, labels)
    )
    return torch.stack([weights, 0.9 * weights]), x, y


def _gradients(task: Task, way: Way, searched: bool) -> _Gradients:
    """Of models [2, m] on batches [2, S, ...], as rounds and attacks take them.

    `searched`: and the gradient by inputs of an update's squared norm.
    """
    gradient = way.grad(replace(task, way=way).mean_loss)

    def energy(x: torch.Tensor, weights: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        squared: torch.Tensor = gradient(weights, x, y).square().sum()
        return squared

    def run(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
            found = [
                way.vmap(way.vmap(gradient, (None, 0, 0)), (0, None, None))(weights, x, y),
                way.vmap(gradient)(weights, x, y),
            ]
            if searched:
                found.append(way.vmap(way.grad(energy))(x, weights, y))
        return found

    return run


def _differ(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return any(
        bool((a - b).norm() > _AGREE * torch.maximum(a.norm(), b.norm()) + 1e-6)
        for a, b in zip(one, other, strict=True)
    )
