"""A recorded list of operations made shorter: what it computes stays the same.

Derivatives of derivatives hold much that nobody would write: products with one, the same product
twice, and gradients of slices, each filled up with zeros before they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._ops import OpOverload

if TYPE_CHECKING:
    from torch.fx import Graph, Node

__all__ = ["MEMORY", "memory", "shorten"]

MEMORY: Final = "memory"
"""Under this name a node's `meta` holds how its tensor lies in memory."""

_ATEN: Final = torch.ops.aten
_PRODUCTS: Final = (_ATEN.mul.Tensor, _ATEN.mul.Scalar, _ATEN.div.Tensor, _ATEN.div.Scalar)
_SUMS: Final = (_ATEN.add.Tensor, _ATEN.add.Scalar, _ATEN.sub.Tensor, _ATEN.sub.Scalar)


def memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """The shape, type and strides of a tensor."""
    return tensor.shape, tensor.dtype, tensor.device, tensor.stride()


def shorten(graph: Graph, written: Collection[Node]) -> None:
    """Leave out what is done twice or for nothing; what reads or is `written` to stays."""
    known: dict[tuple[Any, str, str], Node] = {}
    for node in list(graph.nodes):
        touched = any(each in written for each in (node, *node.all_input_nodes))
        if node.op != "call_function" or touched or not _repeatable(node.target):
            continue
        key = (node.target, repr(node.args), repr(node.kwargs))
        found = known.get(key) or _without_effect(node) or _joined(graph, node)
        known[key] = found or node
        if found is not None:
            node.replace_all_uses_with(found)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _repeatable(target: Callable[..., Any] | str) -> bool:
    """Whether it gives the same for the same, and changes nothing."""
    if not isinstance(target, OpOverload):
        return callable(target)  # the part of a tuple
    return not (target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags)


def _without_effect(node: Node) -> Node | None:
    """What is multiplied by one, or has zero added to it."""
    neutral = 1 if node.target in _PRODUCTS else 0 if node.target in _SUMS else None
    if neutral is None or len(node.args) != 2 or node.kwargs:
        return None
    kept, number = node.args
    plain = isinstance(number, int | float) and number == neutral
    alike = plain and kept.meta.get(MEMORY) == node.meta.get(MEMORY)  # type: ignore[union-attr]
    return kept if alike else None  # type: ignore[return-value]


def _joined(graph: Graph, node: Node) -> Node | None:
    """Gradients of slices of one tensor: of the same slice added first, of both halves joined."""
    if node.target is not _ATEN.add.Tensor or len(node.args) != 2 or node.kwargs:
        return None
    sides: list[Any] = list(node.args)
    if any(getattr(each, "target", None) is not _ATEN.slice_backward.default for each in sides):
        return None
    one, other = sorted((each.args for each in sides), key=lambda each: each[3:5])
    a, sizes, dim, start, end, step = one
    b, _, _, begin, stop, _ = other
    if (*one[1:3], 1) != (*other[1:3], step) or step != other[5]:
        return None
    with graph.inserting_before(node):
        if (start, end) == (begin, stop):
            total = graph.call_function(_ATEN.add.Tensor, (a, b))
            return graph.call_function(_ATEN.slice_backward.default, (total, *one[1:]))
        if start == 0 and end == begin and stop >= sizes[dim]:
            return graph.call_function(_ATEN.cat.default, ([a, b], dim))
    return None
