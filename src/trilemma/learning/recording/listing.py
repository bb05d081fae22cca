"""Recorded operations as a plain list.

torch.fx has the like, but looks through every argument and writes a program of it: half of the
time that a recording took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import torch
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_map_only

__all__ = ["Listing", "Step", "memory", "steps_in"]


def memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """The shape, type, device and strides of a tensor, and whether its numbers are as they lie."""
    lazy = tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.dtype, tensor.device, tensor.stride(), lazy


@dataclass(eq=False, slots=True)
class Step:
    """An operation; without one, an argument or a constant.

    Where `args` and `kwargs` had tensors, they have the steps that made them. `memory` is how what
    it makes lies in memory, where that is known.
    """

    number: int
    target: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    memory: tuple[object, ...] | None = None

    def __repr__(self) -> str:
        return f"%{self.number}"

    @property
    def inputs(self) -> list[Step]:
        """The steps whose results it takes."""
        return steps_in((self.args, self.kwargs))


def steps_in(values: Any) -> list[Step]:
    """All steps in nested values."""
    found: list[Step] = []

    def note(value: Any) -> Any:
        if isinstance(value, Step):
            found.append(value)
        return value

    map_aggregate(values, note)
    return found


class Listing:
    """Steps in their order, a function of as many arguments as were added."""

    def __init__(self) -> None:
        self.arguments: list[Step] = []
        self.constants: dict[Step, torch.Tensor] = {}
        self.steps: list[Step] = []
        self.result: Any = None
        self._numbers = count()

    def argument(self) -> Step:
        """One more that it takes."""
        self.arguments.append(Step(next(self._numbers)))
        return self.arguments[-1]

    def constant(self, tensor: torch.Tensor) -> Step:
        """One more tensor that it holds."""
        step = Step(next(self._numbers))
        self.constants[step] = tensor
        return step

    def operation(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Step:
        """One more, at the end."""
        self.steps.append(Step(next(self._numbers), target, args, kwargs))
        return self.steps[-1]

    def __call__(self, *given: torch.Tensor) -> Any:
        held: dict[Step, Any] = dict(zip(self.arguments, given, strict=True))
        held.update(self.constants)

        def of(value: Any) -> Any:
            return held[value] if isinstance(value, Step) else value

        for step, done in zip(self.steps, self._done, strict=True):
            args, kwargs = map_aggregate((step.args, step.kwargs), of)
            held[step] = step.target(*args, **kwargs)  # type: ignore[misc]
            for each in done:  # large models have no room for all that is made on the way
                del held[each]
        return tree_map_only(Step, held.__getitem__, self.result)

    @cached_property
    def _done(self) -> list[list[Step]]:
        """What is taken for the last time by each step."""
        later, done = set(steps_in(self.result)), []
        for step in reversed(self.steps):
            last = {*step.inputs, step} - later
            later |= last
            done.append([*last])
        return done[::-1]
