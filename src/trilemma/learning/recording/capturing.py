"""Recorded functions as CUDA graphs: a GPU is handed all of their operations at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

if TYPE_CHECKING:
    from trilemma.learning.recording.operation_list import Listing, Step

__all__ = ["Captured", "Repeated", "capturable"]

Result = TypeVar("Result")
_BEFORE: Final = 2  # calls operation by operation: libraries choose and load their kernels then
_SHAPE, _DEVICE = 0, 2  # their places in what `memory` tells of a tensor
_MODE: Final = "thread_local"  # other threads may use the GPU while one captures
_READING: Final = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_MOVING: Final = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Captured(Generic[Result]):
    """A function of CUDA tensors of fixed shapes, launched as one graph from its third call on.

    A small model's operations end sooner than Python can hand over the next. Arguments are copied
    to where the graph reads them unless they are those of the last call; results are copies.
    """

    def __init__(self, function: Callable[..., Result]) -> None:
        self._function = function
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[torch.Tensor] = []
        self._last: list[tuple[weakref.ref[torch.Tensor], int]] = []
        self._made: Any = None

    def __call__(self, *arguments: torch.Tensor) -> Result:
        if torch.cuda.is_current_stream_capturing():  # as a part of a longer graph
            return self._function(*arguments)
        if self._graph is None:
            self._calls += 1
            if self._calls <= _BEFORE:
                return self._function(*arguments)
            self._graph = self._capture(arguments)
        for place, given in enumerate(arguments):
            last, version = self._last[place]
            if last() is not given or version != given._version:
                self._inputs[place].copy_(given)
                self._last[place] = weakref.ref(given), given._version
        self._graph.replay()
        copies: Result = tree_map_only(torch.Tensor, torch.clone, self._made)
        return copies

    def _capture(self, arguments: tuple[torch.Tensor, ...]) -> torch.cuda.CUDAGraph:
        self._inputs = [argument.clone() for argument in arguments]
        self._last = [(weakref.ref(argument), argument._version) for argument in arguments]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=_pool().pool(), capture_error_mode=_MODE):
            self._made = self._function(*self._inputs)
        return graph


class Repeated:
    """Work on CUDA tensors that stay in place, launched as one graph from its third call on.

    It must read no number of a tensor.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is None:
            self._calls += 1
            if self._calls <= _BEFORE:
                self._work()
                return
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, pool=_pool().pool(), capture_error_mode=_MODE):
                self._work()
        self._graph.replay()


def capturable(listing: Listing) -> bool:
    """Whether all work is the GPU's: nothing is brought to it or read from it on the way."""
    return all(_stays(step) for step in listing.steps)


def _stays(step: Step) -> bool:
    """Whether an operation neither moves tensors between devices nor reads a number."""
    target = step.target
    if isinstance(target, OpOverload) and not _READING.isdisjoint(target.tags):
        return False
    # Single numbers of the CPU travel with the launch, unless they are to become tensors there.
    plain = () if target in _MOVING else ((),)
    inputs = [item.memory for item in step.inputs if item.memory]
    seen = [item for item in inputs if item[_SHAPE] not in plain]
    own = [step.memory] if step.memory else []
    return len({value[_DEVICE] for value in (*seen, *own)}) <= 1


@cache
def _pool() -> torch.cuda.CUDAGraph:
    """Owner of the memory for what graphs make on the way, which all share: one runs at a time.

    Memory that no graph owns any more cannot be shared again, so this one is kept.
    """
    owner = torch.cuda.CUDAGraph()
    with torch.cuda.graph(owner, capture_error_mode=_MODE):
        torch.zeros(1, device="cuda")
    return owner
