"""The three ways in which a model's functions are mapped over records and differentiated.

Recorded: by torch.func, once, as a list of operations that is replayed. Vmapped: by torch.func in
every call. Looped: record by record in plain autograd, which runs whatever torch runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

__all__ = ["Way"]

_INSIDE: ContextVar[bool] = ContextVar("a looped gradient is under way", default=False)


@dataclass(frozen=True)
class Way:
    """How a model is run, and the `reason` why in no faster way; as `torch.func` in its arguments.

    A looped `vmap` maps first dimensions alone, as do all that are asked for here. `once`: why the
    update has no derivative in the inputs, by which attacks would search ("": it has).
    """

    kind: Literal["recorded", "vmapped", "looped"] = "recorded"
    reason: str = ""
    once: str = ""

    def vmap(
        self,
        function: Callable[..., Any],
        in_dims: int | tuple[int | None, ...] | None = 0,
        *,
        chunk_size: int | None = None,
        randomness: str = "error",
    ) -> Callable[..., Any]:
        """`function` of every row of its arguments, stacked; of None all of the argument."""
        if self.kind == "looped":
            return _each_row(function, in_dims)
        dims: Any = in_dims
        return torch.func.vmap(function, dims, chunk_size=chunk_size, randomness=randomness)

    def grad(self, function: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
        """The gradient of `function` by its first argument, and what else it returns."""
        if self.kind == "looped":
            gradient = _gradient(function, has_aux=has_aux)
            return (
                (lambda *given: gradient(*given)[::2]) if has_aux else lambda *g: gradient(*g)[0]
            )
        return torch.func.grad(function, has_aux=has_aux)

    def grad_and_value(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The gradient of `function` by its first argument, and its value."""
        if self.kind == "looped":
            gradient = _gradient(function, has_aux=False)
            return lambda *given: gradient(*given)[:2]
        return torch.func.grad_and_value(function)

    def jvp(
        self, function: Callable[..., torch.Tensor], at: torch.Tensor, along: torch.Tensor
    ) -> torch.Tensor:
        """The derivative [m] of `function` at a point [d] along a direction [d]."""
        if self.kind != "looped":
            made: torch.Tensor = torch.func.jvp(function, (at,), (along,))[1]
            return made
        # (J along)_i is the gradient by u_i of (Jᵀu)·along, and autograd goes backward alone.
        size = function(at).shape

        def pulled(u: torch.Tensor) -> torch.Tensor:
            back: torch.Tensor = self.grad(lambda x: (function(x) * u).sum())(at)
            return (back * along).sum()

        gradient: torch.Tensor = self.grad(pulled)(at.new_zeros(size))
        return gradient


def _each_row(
    function: Callable[..., Any], in_dims: int | tuple[int | None, ...] | None
) -> Callable[..., Any]:
    def mapped(*given: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(given)
        split = [arg for arg, dim in zip(given, dims, strict=True) if dim is not None]

        def row(number: int) -> Any:
            return function(
                *(
                    arg if dim is None else tree_map_only(torch.Tensor, lambda t: t[number], arg)
                    for arg, dim in zip(given, dims, strict=True)
                )
            )

        results = [row(number) for number in range(len(tree_leaves(split)[0]))]
        return tree_map(lambda *rows: torch.stack(rows), *results)

    return mapped


def _gradient(
    function: Callable[..., Any], *, has_aux: bool
) -> Callable[..., tuple[Any, Any, Any]]:
    """The gradient by the first argument, the value and what else is returned (None: nothing).

    Within another gradient all three can be differentiated; else they are plain numbers.
    """

    def gradient(first: Any, *others: Any) -> tuple[Any, Any, Any]:
        leaves, form = tree_flatten(first)
        inner = _INSIDE.get()
        with _inside(), torch.enable_grad():
            # A node of its own: what else depends on the argument is none of this gradient.
            own = [
                leave.view_as(leave) if leave.requires_grad else leave.detach().requires_grad_()
                for leave in leaves
            ]
            made = function(tree_unflatten(own, form), *others)
            value, aux = made if has_aux else (made, None)
            if value.requires_grad:
                found = torch.autograd.grad(
                    value, own, create_graph=inner, allow_unused=True, materialize_grads=True
                )
            else:
                found = tuple(map(torch.zeros_like, own))
        result = tree_unflatten(list(found), form), value, aux
        if inner:
            return result
        plain: tuple[Any, Any, Any] = tree_map_only(torch.Tensor, torch.Tensor.detach, result)
        return plain

    return gradient


@contextmanager
def _inside() -> Iterator[None]:
    before = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(before)
