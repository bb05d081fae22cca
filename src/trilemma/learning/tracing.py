"""Functions recorded once and replayed without torch.func's bookkeeping."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["traced"]

Result = TypeVar("Result")
_TRACES: OrderedDict[tuple[object, ...], tuple[Task, Callable[..., Any]]] = OrderedDict()
_KEPT_TRACES = 24


def traced(
    key: tuple[object, ...],
    task: Task,
    function: Callable[..., Result],
    example: tuple[torch.Tensor, ...],
) -> Callable[..., Result]:
    """`function` recorded once as a flat list of tensor operations for the example's shapes.

    Replaying the list skips torch.func's bookkeeping, which is half of the time of a small
    model. Traces are kept by `key`, the shapes and the state of all that a trace takes as
    constant: the model's buffers, frozen parameters and modes.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    model = task.model
    constants = [*model.buffers(), *(p for p in model.parameters() if not p.requires_grad)]
    state = tuple((constant.data_ptr(), constant._version) for constant in constants)
    modes = tuple(module.training for module in model.modules())
    shapes = tuple((tuple(t.shape), t.dtype, t.device) for t in example)
    full_key = (*key, id(task), state, modes, shapes)
    if full_key in _TRACES:
        _TRACES.move_to_end(full_key)
        return _TRACES[full_key][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # make_fx touches deprecated corners of torch itself
        graph = make_fx(function)(*example)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    _TRACES[full_key] = task, graph  # holding the task keeps its id from being reused
    if len(_TRACES) > _KEPT_TRACES:
        _TRACES.popitem(last=False)
    return graph
