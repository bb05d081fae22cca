"""A recorded list of operations made shorter: what it computes stays the same.

Derivatives of derivatives hold much that nobody would write: products with one, the same product
twice, and gradients of slices, each filled up with zeros before they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_map_only

from trilemma.learning.recording.operation_list import Listing, Step, steps_in

__all__ = ["shorten"]

_ATEN: Final = torch.ops.aten
_PRODUCTS: Final = (_ATEN.mul.Tensor, _ATEN.mul.Scalar, _ATEN.div.Tensor, _ATEN.div.Scalar)
_SUMS: Final = (_ATEN.add.Tensor, _ATEN.add.Scalar, _ATEN.sub.Tensor, _ATEN.sub.Scalar)


def shorten(listing: Listing, written: Collection[Step]) -> None:
    """Leave out what is done twice or for nothing; what reads or is `written` to stays."""
    known: dict[tuple[Any, str, str], Step] = {}
    instead: dict[Any, Step] = {}

    def replaced(value: Any) -> Any:
        return instead.get(value, value) if isinstance(value, Step) else value

    before, listing.steps = listing.steps, []
    for step in before:
        step.args, step.kwargs = map_aggregate((step.args, step.kwargs), replaced)
        touched = any(item in written for item in (step, *step.inputs))
        if not touched and _repeatable(step.target):
            key = (step.target, repr(step.args), repr(step.kwargs))
            found = known.get(key) or _without_effect(step)
            parts = {item for own in step.inputs for item in own.inputs}
            if found is None and parts.isdisjoint(written):
                found = _joined(listing, step)
            known[key] = found or step
            if found is not None:
                instead[step] = found
                continue
        listing.steps.append(step)
    listing.result = tree_map_only(Step, replaced, listing.result)
    _leave_out_unused(listing)


def _leave_out_unused(listing: Listing) -> None:
    """Keep what the result needs, and what changes something."""
    needed, kept = set(steps_in(listing.result)), []
    for step in reversed(listing.steps):
        if step in needed or not _repeatable(step.target):
            needed.update(step.inputs)
            kept.append(step)
    listing.steps = kept[::-1]


def _repeatable(target: Callable[..., Any] | None) -> bool:
    """Whether it gives the same for the same, and changes nothing."""
    if not isinstance(target, OpOverload):
        return callable(target)  # the part of a tuple
    return not (target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags)


def _without_effect(step: Step) -> Step | None:
    """What is multiplied by one, or has zero added to it."""
    neutral = 1 if step.target in _PRODUCTS else 0 if step.target in _SUMS else None
    if neutral is None or len(step.args) != 2 or step.kwargs:
        return None
    kept, number = step.args
    plain = isinstance(number, int | float) and number == neutral
    alike = plain and isinstance(kept, Step) and kept.memory == step.memory
    return kept if alike else None


def _joined(listing: Listing, step: Step) -> Step | None:
    """Gradients of slices of one tensor: of the same slice added first, of both halves joined."""
    if step.target is not _ATEN.add.Tensor or len(step.args) != 2 or step.kwargs:
        return None
    if any(
        getattr(argument, "target", None) is not _ATEN.slice_backward.default
        for argument in step.args
    ):
        return None
    one, other = sorted((argument.args for argument in step.args), key=lambda given: given[3:5])
    a, sizes, dim, start, end, by = one
    b, _, _, begin, stop, _ = other
    if (*one[1:3], 1) != (*other[1:3], by) or by != other[5]:
        return None
    if (start, end) == (begin, stop):
        total = listing.operation(_ATEN.add.Tensor, (a, b), {})
        return listing.operation(_ATEN.slice_backward.default, (total, *one[1:]), {})
    if start == 0 and end == begin and stop >= sizes[dim]:
        return listing.operation(_ATEN.cat.default, ([a, b], dim), {})
    return None
