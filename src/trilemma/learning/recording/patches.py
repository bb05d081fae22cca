"""Convolutions of many small models at once on a GPU, as products of patches.

With weights of its own for each unit, `vmap` makes one convolution of as many groups as there are
units. cuDNN does the groups one by one, more or less; as patches times weights they are one
batched product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch.nn.functional import fold, pad

__all__ = ["by_patches"]

_ATEN: Final = torch.ops.aten
_CHANNELS: Final = 32  # of a group, in or out, up to which cuDNN is slower ...
_RECORDS: Final = 16  # ... while a group has as few records, or there are twice as many groups
_NUMBERS: Final = 1 << 29  # of all patches, and ...
_OF_MEMORY: Final = 64  # ... bytes of the GPU's memory for each: above, they take too much


def by_patches(operation: Any, given: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The same with the same arguments, if it is a convolution of many small groups, or its slope.

    Of two dimensions, on a GPU.
    """
    rule = _RULES.get(operation)
    if rule is None or not given[0].is_cuda or not _of_images(operation, given):
        return None
    inputs, weight, _, stride, *_, transposed, beyond, groups = _setting(operation, given)
    channels = max(inputs.shape[1], weight.shape[0]) // groups
    reached = weight[0, 0].numel() * max(inputs.numel(), given[0].numel())
    few = channels <= _CHANNELS and 0 < len(inputs) <= max(_RECORDS, groups // 2)
    # Places beyond the last that a kernel reaches have no patch to put back.
    whole = not transposed or all(o < s for o, s in zip(beyond, stride, strict=True))
    return rule if groups > 1 and few and whole and reached <= _most(inputs.device) else None


@cache
def _most(device: torch.device) -> int:
    """Numbers of patches that fit beside all else."""
    memory = torch.cuda.get_device_properties(device).total_memory
    return min(_NUMBERS, memory // _OF_MEMORY)


def _setting(operation: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What both have: inputs, weight, bias, stride, padding, dilation, transposed, beyond, groups.

    A slope comes before them, and which are asked for behind.
    """
    return given if operation is _ATEN.convolution.default else given[1:10]


def _of_images(operation: Any, given: tuple[Any, ...]) -> bool:
    """Whether the inputs have two dimensions, and so have stride, padding and dilation."""
    inputs, _, _, *both = _setting(operation, given)[:6]
    return inputs.ndim == 4 and all(len(each) == 2 for each in both)


@dataclass(frozen=True)
class _Window:
    """How kernels move over images, and how many groups of channels there are."""

    groups: int
    kernel: tuple[int, ...]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    def patches(self, images: torch.Tensor) -> torch.Tensor:
        """[G, B·H'·W', C·k·k]: what the kernel sees at each of its places in [B, G·C, H, W]."""
        (up, left), (a, b) = self.padding, self.stride
        x = pad(images, (left, left, up, up)).contiguous()
        (rows, columns), (down, right) = self.kernel, self.dilation
        high = (x.shape[2] - down * (rows - 1) - 1) // a + 1
        wide = (x.shape[3] - right * (columns - 1) - 1) // b + 1
        each, (record, channel, row, column) = x.shape[1] // self.groups, x.stride()
        seen = x.as_strided(
            (self.groups, len(x), high, wide, each, rows, columns),
            (each * channel, record, a * row, b * column, channel, down * row, right * column),
        )
        return seen.reshape(self.groups, len(x) * high * wide, each * rows * columns)

    def put_back(self, patches: torch.Tensor, records: int, size: Sequence[int]) -> torch.Tensor:
        """The transpose of `patches`: [B, G·C, *size], where they overlap their sum."""
        places = patches.shape[1] // records
        by_record = patches.reshape(self.groups, records, places, -1).permute(1, 0, 3, 2)
        return fold(
            by_record.reshape(records, -1, places),
            *(tuple(size), self.kernel, tuple(self.dilation)),
            *(tuple(self.padding), tuple(self.stride)),
        )

    def rows(self, images: torch.Tensor) -> torch.Tensor:
        """[G, B·H·W, C] of images [B, G·C, H, W]."""
        split = images.reshape(len(images), self.groups, -1, *images.shape[2:])
        return split.permute(1, 0, 3, 4, 2).reshape(self.groups, -1, split.shape[2])

    def images(self, rows: torch.Tensor, records: int, size: Sequence[int]) -> torch.Tensor:
        """[B, G·C, *size] of rows [G, B·H·W, C]."""
        split = rows.reshape(self.groups, records, *size, -1).permute(1, 0, 4, 2, 3)
        return split.reshape(records, -1, *size)

    def matrices(self, weight: torch.Tensor) -> torch.Tensor:
        """[G, O, C·k·k] of weights [G·O, C, k, k]."""
        return weight.reshape(self.groups, weight.shape[0] // self.groups, -1)

    def reached(self, size: Sequence[int]) -> tuple[int, ...]:
        """How many places the kernel has in images of this size."""
        each = zip(size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in each)


def _convolution(
    inputs: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    beyond: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """patches(x) Wᵀ, or transposed the patches x W put back."""
    window = _Window(groups, tuple(weight.shape[2:]), stride, padding, dilation)
    by_group, records, size = window.matrices(weight), len(inputs), inputs.shape[2:]
    if transposed:
        each = zip(size, window.kernel, stride, padding, dilation, beyond, strict=True)
        whole = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in each]
        made = window.put_back(torch.bmm(window.rows(inputs), by_group), records, whole)
    else:
        product = torch.bmm(window.patches(inputs), by_group.mT)
        made = window.images(product, records, window.reached(size))
    return made if bias is None else made + bias[:, None, None]


def _slopes(
    slope: torch.Tensor,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    _: object,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    __: object,
    groups: int,
    asked: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Those by the inputs, the weights and the bias, where they are asked for."""
    window = _Window(groups, tuple(weight.shape[2:]), stride, padding, dilation)
    by_group, records, size = window.matrices(weight), len(inputs), inputs.shape[2:]
    by_input = by_weight = None
    if transposed:
        seen = window.patches(slope)
        if asked[0]:
            by_input = window.images(torch.bmm(seen, by_group.mT), records, size)
        if asked[1]:
            by_weight = torch.bmm(window.rows(inputs).mT, seen).reshape(weight.shape)
    else:
        rows = window.rows(slope)
        if asked[0]:
            by_input = window.put_back(torch.bmm(rows, by_group), records, size)
        if asked[1]:
            by_weight = torch.bmm(rows.mT, window.patches(inputs)).reshape(weight.shape)
    return by_input, by_weight, slope.sum((0, 2, 3)) if asked[2] else None


_RULES: Final[Mapping[Any, Callable[..., Any]]] = {
    _ATEN.convolution.default: _convolution,
    _ATEN.convolution_backward.default: _slopes,
}
