"""Convolutions of many small models at once on a GPU, as products of patches.

With weights of its own for each unit, `vmap` makes one convolution of as many groups as there are
units. cuDNN does the groups one by one, more or less; as patches times weights they are one
batched product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

import torch
from torch.nn.functional import fold, pad

__all__ = ["by_patches"]

_ATEN: Final = torch.ops.aten
_CHANNELS: Final = 32  # of a group, in or out, up to which cuDNN is slower ...
_RECORDS: Final = 16  # ... while a group has as few records, or there are twice as many groups
_NUMBERS: Final = 1 << 29  # of all patches, and ...
_OF_MEMORY: Final = 64  # ... bytes of the GPU's memory for each: above, they take too much
_MANY: Final = 256  # groups times records from which a few more operations do not matter


def by_patches(operation: Any, given: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The same with the same arguments, if that is a convolution of many small groups.

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

    A gradient comes before them, and which are asked for behind.
    """
    return given if operation is _ATEN.convolution.default else given[1:10]


def _of_images(operation: Any, given: tuple[Any, ...]) -> bool:
    """Whether the inputs have two dimensions, and so have stride, padding and dilation."""
    inputs, _, _, *both = _setting(operation, given)[:6]
    return inputs.ndim == 4 and all(len(item) == 2 for item in both)


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
        channels, (record, channel, row, column) = x.shape[1] // self.groups, x.stride()
        seen = x.as_strided(
            (self.groups, len(x), high, wide, channels, rows, columns),
            (channels * channel, record, a * row, b * column, channel, down * row, right * column),
        )
        return seen.reshape(self.groups, len(x) * high * wide, channels * rows * columns)

    def spread(
        self, images: torch.Tensor, weights: torch.Tensor, size: Sequence[int]
    ) -> torch.Tensor:
        """[B, G·C, *size]: each place of [B, G·O, H', W'] times the kernels [G, O, C·k·k], added.

        Few at once are products put back where their patches were. Of many, every place of the
        result gathers what reaches it: a kernel moved by a stride of s reaches only every s-th
        with the same weights, so there are s·s small convolutions.
        """
        many = self.groups * len(images) >= _MANY or set(self.stride) == {1}
        if not many or set(self.dilation) != {1}:
            return self._put_back(torch.bmm(self.rows(images), weights), len(images), size)
        kernels = weights.reshape(self.groups, weights.shape[1], -1, *self.kernel)
        made = images.new_empty(len(images), self.groups * kernels.shape[2], *size)
        for down, right in product(*(range(step) for step in self.stride)):
            rows = _Residue.of(down, size[0], self.kernel[0], self.stride[0], self.padding[0])
            columns = _Residue.of(right, size[1], self.kernel[1], self.stride[1], self.padding[1])
            if not (rows.taps and columns.taps):
                made[:, :, rows.places, columns.places] = 0
            if not (rows.taps and columns.taps and rows.count and columns.count):
                continue
            around = (*columns.around(images.shape[3]), *rows.around(images.shape[2]))
            window = _Window(self.groups, (rows.taps, columns.taps), (1, 1), (0, 0), (1, 1))
            own = kernels[..., down :: self.stride[0], right :: self.stride[1]].flip(-2, -1)
            by_tap = own.permute(0, 1, 3, 4, 2).flatten(1, 3)
            seen = torch.bmm(window.patches(pad(images, around)), by_tap)
            here = window.images(seen, len(images), (rows.count, columns.count))
            made[:, :, rows.places, columns.places] = here
        return made

    def _put_back(self, patches: torch.Tensor, records: int, size: Sequence[int]) -> torch.Tensor:
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
        axes = zip(size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)


@dataclass(frozen=True)
class _Residue:
    """Every s-th place of one side, from `first` on, all of which the same taps of a kernel reach.

    Place y is reached by tap i from h where y + padding = s·h + i: from h = t, t - 1, … by the
    taps i = r, r + s, …, with y = s·t + r - padding. The first has the number `start` = t.
    """

    first: int
    count: int
    taps: int
    start: int
    step: int

    @classmethod
    def of(cls, r: int, size: int, kernel: int, step: int, padding: int) -> _Residue:
        """Those whose lowest tap is r."""
        start = -((r - padding) // step)
        first = step * start + r - padding
        return cls(first, len(range(first, size, step)), len(range(r, kernel, step)), start, step)

    @property
    def places(self) -> slice:
        return slice(self.first, None, self.step)

    def around(self, size: int) -> tuple[int, int]:
        """How many zeros before and behind a side of so many places let the taps see all."""
        return self.taps - 1 - self.start, self.start + self.count - size


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
        axes = zip(size, window.kernel, stride, padding, dilation, beyond, strict=True)
        whole = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in axes]
        made = window.spread(inputs, by_group, whole)
    else:
        product = torch.bmm(window.patches(inputs), by_group.mT)
        made = window.images(product, records, window.reached(size))
    return made if bias is None else made + bias[:, None, None]


def _gradients(
    gradient: torch.Tensor,
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
        seen = window.patches(gradient)
        if asked[0]:
            by_input = window.images(torch.bmm(seen, by_group.mT), records, size)
        if asked[1]:
            by_weight = torch.bmm(window.rows(inputs).mT, seen).reshape(weight.shape)
    else:
        if asked[0]:
            by_input = window.spread(gradient, by_group, size)
        if asked[1]:
            seen = window.patches(inputs)
            by_weight = torch.bmm(window.rows(gradient).mT, seen).reshape(weight.shape)
    return by_input, by_weight, gradient.sum((0, 2, 3)) if asked[2] else None


_RULES: Final[Mapping[Any, Callable[..., Any]]] = {
    _ATEN.convolution.default: _convolution,
    _ATEN.convolution_backward.default: _gradients,
}
