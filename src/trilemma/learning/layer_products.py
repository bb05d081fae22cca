"""Gradients of many records at one model, layer by layer: what was read, and the gradients behind.

A convolution or a linear layer has for one record the gradient G = Σ_p δ_p x_pᵀ, over the places p
that it writes to, of the gradients δ_p there and the patch x_p that it reads. Who needs a few rows
of aᵀ G alone makes them of aᵀ δ_p, and never writes G. All records run through the model as one
batch then, with the same weights, where a gradient each takes a group of convolutions each.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import linear, pad
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from trilemma.learning.forward_memory import (
    RECORDED_AT_MOST,
    held_at_most,
    held_for_backward,
)
from trilemma.learning.recording.tracing import traced

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["Products", "RecordLoss", "record_gradients", "written_out"]

_TRIED: Final = 2  # records whose gradients are compared with torch's own
_CLOSE: Final = (
    1e-2  # of a gradient's norm: a GPU rounds to 11 bits, a forgotten use is no rounding
)
_SITES: OrderedDict[tuple[object, ...], tuple[Task, tuple[_Site, ...]]] = OrderedDict()
_KEPT: Final = 16


@dataclass(frozen=True)
class RecordLoss:
    """`of(tensors by name, what else they meet, record, label)`; of one name, a task has one."""

    name: Hashable
    of: Callable[[dict[str, torch.Tensor], Any, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class _Window:
    """What a convolution reads at each place."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def patches(self, read: torch.Tensor) -> torch.Tensor:
        """[n, S, C, H, W] -> [n, C · kernel · kernel, S · H' · W'], copied once."""
        down, across = self.padding
        wide = pad(read, (across, across, down, down)) if down or across else read
        for axis in (0, 1):
            reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
            wide = wide.unfold(3 + axis, reach, self.stride[axis])
        wide = wide[..., :: self.dilation[0], :: self.dilation[1]].permute(0, 2, 5, 6, 1, 3, 4)
        return wide.reshape(len(read), math.prod(wide.shape[1:4]), -1)


@dataclass(frozen=True)
class _Site:
    """One use of a weight for one record: what it writes, and by which window it reads.

    No window: a linear layer.
    """

    name: str
    written: tuple[int, ...]
    window: _Window | None

    def sides(
        self, read: torch.Tensor, gradients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """δ [n, d, P] and x [n, e, P] of n records."""
        if self.window is None:
            flat = (value.reshape(len(value), -1, value.shape[-1]) for value in (gradients, read))
            made, seen = (item.transpose(1, 2) for item in flat)
            return made, seen
        made = gradients.transpose(1, 2)
        return made.reshape(*made.shape[:2], -1), self.window.patches(read)


@dataclass(frozen=True, eq=False)
class Products:
    """Gradients [n, d, e] of n records by one weight, as sums of products not written out.

    `uses`: sites of the weight, and what was read and the gradients there.
    """

    uses: tuple[tuple[_Site, torch.Tensor, torch.Tensor], ...]

    @property
    def dtype(self) -> torch.dtype:
        """That of the gradients."""
        return self.uses[0][2].dtype

    def __mul__(self, scales: torch.Tensor) -> Products:
        """Each record's gradient times its own of the scales [n, 1]."""
        return Products(
            tuple(
                (site, read, gradients * scales.reshape(-1, *[1] * (gradients.ndim - 1)))
                for site, read, gradients in self.uses
            )
        )

    @property
    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """δ [n, d] and x [n, e] where every gradient is one product δ xᵀ, else None."""
        site, read, gradients = self.uses[0]
        width = gradients.shape[-1 if site.window is None else 2]
        if len(self.uses) > 1 or gradients[0].numel() > width:
            return None
        made, seen = site.sides(read, gradients)
        return made[..., 0], seen[..., 0]

    def between(
        self, left: torch.Tensor | None = None, right: torch.Tensor | None = None
    ) -> torch.Tensor:
        """leftᵀ G right [n, ...], for left [d, r] and right [e, s] (None: all of that side)."""
        sides = (site.sides(read, gradients) for site, read, gradients in self.uses)
        return sum(  # type: ignore[return-value]
            (gradients if left is None else left.T @ gradients)
            @ (read.transpose(1, 2) if right is None else read.transpose(1, 2) @ right)
            for gradients, read in sides
        )


def record_gradients(
    task: Task,
    loss: RecordLoss,
    weights: torch.Tensor,
    met: Any,
    inputs: torch.Tensor,
    labels: torch.Tensor,
) -> list[torch.Tensor | Products]:
    """The gradients of each record's loss at weights [m], tensor by tensor: [n, size] or products.

    A weight gets products if it is the weight of convolutions and linear layers and nothing else
    is done with it: every call is watched, and met otherwise than the last time, sites are found
    again. What a GPU replays is what was done when it was recorded. Looped, each record's gradient
    is written out.
    """
    if task.way.kind == "looped":
        gradient = task.way.vmap(task.way.grad(loss.of), (None, None, 0, 0))
        made = gradient(task.layout.unflatten(weights), met, inputs, labels)
        return [made[name].flatten(1) for name in task.layout.names]
    example = (task, loss, weights, met, inputs, labels)
    key = (id(task), loss.name, inputs.shape[1:])
    with sdpa_kernel(SDPBackend.MATH):  # torch.func cannot map the fused attention
        _, sites = _SITES.get(key) or (task, _found(*example))
        try:
            gradients, reads, rest = _run(sites, *example)
        except _UnknownLayer:
            sites = _found(*example)
            gradients, reads, rest = _run(sites, *example)
    _SITES[key] = task, sites  # holding the task keeps its id from being reused
    _SITES.move_to_end(key)
    if len(_SITES) > _KEPT:
        _SITES.popitem(last=False)
    uses: dict[str, list[tuple[_Site, torch.Tensor, torch.Tensor]]] = {}
    for use in zip(sites, reads, gradients, strict=True):
        uses.setdefault(use[0].name, []).append(use)
    return [
        Products(tuple(uses[name])) if name in uses else rest[name].flatten(1)
        for name in task.layout.names
    ]


def written_out(gradients: torch.Tensor | Products) -> torch.Tensor:
    """One tensor's part of them, [n, size]."""
    return gradients.between().flatten(1) if isinstance(gradients, Products) else gradients


_Made = tuple[list[torch.Tensor], list[torch.Tensor], dict[str, torch.Tensor]]


def _run(
    sites: tuple[_Site, ...],
    task: Task,
    loss: RecordLoss,
    weights: torch.Tensor,
    met: Any,
    inputs: torch.Tensor,
    labels: torch.Tensor,
) -> _Made:
    """Gradients and what was read at each site, and gradients of all other tensors, a record.

    As many records are taken at once as what their forward passes hold leaves room for.
    """
    extra, spec = tree_flatten(met)
    held = held_for_backward(
        task,
        (loss.name, inputs.shape[1:]),
        weights,
        lambda at: loss.of(task.layout.unflatten(at), met, inputs[0].clone(), labels[0].clone()),
    )
    size = max(1, held_at_most(weights) // held)
    if len(inputs) > size:
        some = zip(torch.split(inputs, size), torch.split(labels, size), strict=True)
        parts = [_run(sites, task, loss, weights, met, *records) for records in some]
        return cast("_Made", tree_map(lambda *made: torch.cat(made), *parts))

    def gradients(
        at: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *more: torch.Tensor
    ) -> _Made:
        return _tapped(task, loss, sites, at, tree_unflatten(list(more), spec), x, y)

    # A CPU gains less than it takes to record every number of records.
    if not weights.is_cuda or len(inputs) * held > RECORDED_AT_MOST:
        return gradients(weights, inputs, labels, *extra)
    example = (weights, inputs, labels, *extra)
    run = traced(("record gradients", loss.name, sites), task, gradients, example)
    return run(*example)


def _tapped(
    task: Task,
    loss: RecordLoss,
    sites: Sequence[_Site],
    weights: torch.Tensor,
    met: Any,
    inputs: torch.Tensor,
    labels: torch.Tensor,
) -> _Made:
    tensors = task.layout.unflatten(weights)
    names = {site.name for site in sites}
    watched = {name: tensors[name] for name in names}
    others = {name: tensor for name, tensor in tensors.items() if name not in names}
    taps = [weights.new_zeros(site.written) for site in sites]

    def tapped(
        taps: list[torch.Tensor],
        others: dict[str, torch.Tensor],
        record: torch.Tensor,
        label: torch.Tensor,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        with _Watch(watched, record, taps) as seen:
            value = loss.of({**watched, **others}, met, record, label)
        if seen.besides or [site for site, _ in seen.uses] != list(sites):
            raise _UnknownLayer
        return value, [read for _, read in seen.uses]

    by_record = vmap(grad(tapped, argnums=(0, 1), has_aux=True), (None, None, 0, 0))
    (gradients, rest), reads = by_record(taps, others, inputs, labels)
    return gradients, reads, rest


def _found(
    task: Task,
    loss: RecordLoss,
    weights: torch.Tensor,
    met: Any,
    inputs: torch.Tensor,
    labels: torch.Tensor,
) -> tuple[_Site, ...]:
    """The sites of weights that do nothing else; by watching, and by a few records' gradients.

    What goes on inside of a user's own autograd.Function nobody sees.
    """
    tensors, few = task.layout.unflatten(weights), inputs[:_TRIED].clone()
    first = few[0].clone()
    with torch.no_grad(), _Watch(tensors, first) as seen:
        loss.of(tensors, met, first, labels[0])
    sites = tuple(site for site, _ in seen.uses if site.name not in seen.besides)
    plain = vmap(grad(loss.of), (None, None, 0, 0))(tensors, met, few, labels[:_TRIED])
    gradients, reads, _ = _tapped(task, loss, sites, weights, met, few, labels[:_TRIED])
    made = {site.name: torch.zeros_like(plain[site.name]).flatten(1) for site in sites}
    for use in zip(sites, reads, gradients, strict=True):
        made[use[0].name] += written_out(Products((use,)))
    gaps = {name: (value - plain[name].flatten(1)).norm() for name, value in made.items()}
    unlike = {name for name, gap in gaps.items() if gap > _CLOSE * plain[name].norm()}
    return tuple(site for site in sites if site.name not in unlike)


class _UnknownLayer(Exception):
    """Weights are used in another way than sites say."""


class _Watch(TorchFunctionMode):
    """Notes where tensors, by name, are the weight of a convolution or a linear layer.

    `uses`: the site, and what was read there. `besides`: those that go into anything else that
    makes tensors. Taps are added to what is written, one after the other.
    """

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor],
        record: torch.Tensor,
        taps: Sequence[torch.Tensor] = (),
    ) -> None:
        super().__init__()
        self._names = {id(tensor): name for name, tensor in tensors.items()}
        self._taps, self._depth = iter(taps), _depth(record)
        self.uses: list[tuple[_Site, torch.Tensor]] = []
        self.besides: set[str] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        made = func(*args, **given)
        layer = func in (torch.conv2d, linear)
        call = dict(zip(_ARGUMENTS, args, strict=False)) | given if layer else {}
        site = self._site(func, call, made) if layer else None
        others = [call[key] for key in call if key != "weight"] if site else (args, given)
        if any(isinstance(leave, torch.Tensor) for leave in tree_leaves(made)):
            held = (self._names.get(id(leave)) for leave in tree_leaves(others))
            self.besides.update(item for item in held if item is not None)
        if site is None:
            return made
        self.uses.append((site, call["input"]))
        tap = next(self._taps, None)
        if tap is not None and tap.shape != made.shape:
            raise _UnknownLayer
        return made if tap is None else made + tap

    def _site(
        self, func: Callable[..., Any], call: Mapping[str, Any], made: torch.Tensor
    ) -> _Site | None:
        """The site of a call, if it is one of a watched weight and of a known form."""
        window = _window(call) if func is torch.conv2d else None
        plain = call["weight"].ndim == 2 if func is linear else window is not None
        # What a model's own transform sees is gone when it is done.
        own = plain and _depth(made) <= self._depth
        name = self._names.get(id(call["weight"])) if own else None
        return None if name is None else _Site(name, tuple(made.shape), window)


_ARGUMENTS: Final = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


def _depth(tensor: torch.Tensor) -> int:
    """How many transforms of torch.func a tensor is made under."""
    inner = torch.func.debug_unwrap(tensor, recurse=False)
    return 0 if inner is tensor else 1 + _depth(inner)


def _window(call: Mapping[str, Any]) -> _Window | None:
    """Of a convolution over batches in one group, with padding by numbers; else None."""
    padding = call.get("padding", 0)
    plain = call["input"].ndim == 4 and call.get("groups", 1) == 1
    if not plain or isinstance(padding, str):
        return None
    stride, around, dilation = (
        (value, value) if isinstance(value, int) else tuple(value) * (2 // len(tuple(value)))
        for value in (call.get("stride", 1), padding, call.get("dilation", 1))
    )
    return _Window(tuple(call["weight"].shape[2:]), stride, around, dilation)
