"""What transports on a fixed-point grid share: the grid, its range, and what binds a message."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.crypto.packing import FixedPoint
from trilemma.errors import InvalidInput, RangeExceeded
from trilemma.protection.transports.base import LEAST_NOISE, Payload, Transport
from trilemma.quantities import positive

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

__all__ = [
    "FixedPointTransport",
    "check_range",
    "check_weight",
    "edge_of",
    "fitting",
    "saturated",
    "share_saturated",
    "units_beyond",
]

_BITS: Final = 16
_MOST_BITS: Final = 32  # that `FixedPoint` has
_MOST_SATURATED: Final = 1e-3  # of the coordinates, on the clients' weighted average


@dataclass(frozen=True, kw_only=True)
class FixedPointTransport(Transport):
    """Carries whole units of a grid, whose sums are exact.

    `clip_range` is the largest coordinate, `precision_bits` the bits of a value, `max_weight` the
    public cap on the sum of all weights.
    """

    clip_range: float = 1.0
    precision_bits: int = _BITS
    max_weight: int = 10_000

    def __post_init__(self) -> None:
        clip_range = positive("clip_range (largest coordinate)", self.clip_range)
        object.__setattr__(self, "clip_range", clip_range)
        object.__setattr__(self, "precision_bits", self.fixed.bits)
        object.__setattr__(self, "max_weight", self.fixed.max_weight)

    @cached_property
    def fixed(self) -> FixedPoint:
        return FixedPoint(self.clip_range, self.precision_bits, self.max_weight)

    @classmethod
    def fitted(cls, reach: float, max_weight: int, noise: float = 0.0) -> Self:
        fixed = fitting(reach, max_weight, noise)
        return cls(clip_range=fixed.clip, precision_bits=fixed.bits, max_weight=max_weight)

    def in_range(self, payload: Payload, *, counted: bool = True) -> Payload:
        check_weight(payload.weight, self.fixed)
        values = saturated(payload.values, self.fixed)
        if not counted:
            values[-1] = 0.0
        return replace(payload, values=values)

    def split_count(self, mean: NDArray[Any]) -> tuple[NDArray[Any], float]:
        counted = float(mean[-1]) if mean.size else 0.0  # clients may have sent nothing
        return mean[:-1], share_saturated(counted, mean.size - 1, self.fixed)

    def bound_label(self, label: bytes) -> bytes:
        """The label with these settings, as clients that differ in them cannot be summed."""
        return self.describe().encode() + b"\0" + label


def fitting(reach: float, max_weight: int, noise: float) -> FixedPoint:
    """A grid to the power of two above `reach`, of 16 bits, or of as many as the noise needs.

    >>> fitting(0.3, 100, noise=0.0).bits, fitting(0.3, 100, noise=1e-6).bits
    (16, 21)
    """
    clip = 2.0 ** math.ceil(math.log2(reach))
    levels = LEAST_NOISE * clip / noise if noise else 1.0
    bits = max(_BITS, 1 + math.ceil(math.log2(levels + 1)))
    if bits > _MOST_BITS:
        raise InvalidInput(
            f"noise of standard deviation {noise:g} is lost beside coordinates of {reach:g}, even "
            f"in {_MOST_BITS} bits; clip the update, or raise the noise."
        )
    return FixedPoint(clip, bits, max_weight)


def check_weight(weight: int, fixed: FixedPoint) -> None:
    """Raises where one client's weight is beyond the cap on the sum of all."""
    if weight > fixed.max_weight:
        raise RangeExceeded(
            f"a client has more records than max_weight = {fixed.max_weight}, the cap on the "
            "sum of all weights; raise it, or weight the clients equally."
        )


def check_range(values: NDArray[Any], fixed: FixedPoint, client: int) -> None:
    """Raises unless every value is a number within the transport's range."""
    largest = max(-float(values.min()), float(values.max())) if values.size else 0.0
    if not largest <= fixed.clip:  # so that NaN is caught, which min and max pass on
        raise InvalidInput(
            f"client {client} would send a coordinate of magnitude {largest:g}, beyond the "
            f"transport's clip_range of {fixed.clip:g}; clip the update, or raise clip_range."
        )


def saturated(values: NDArray[Any], fixed: FixedPoint) -> NDArray[Any]:
    """The values [n] moved into ±clip, and how many were beyond it as one coordinate more.

    So the number is summed like any other, and no client's own is seen. A unit of it stands for
    ⌈n / levels⌉ coordinates and is rounded up, so that every number fits.

    >>> saturated(np.array([0.5, -3.0, 0.0]), FixedPoint(clip=1.0, bits=3))
    array([ 0.5       , -1.        ,  0.        ,  0.33333333])
    """
    edge = edge_of(fixed, values.dtype.type)
    made = np.empty(values.size + 1, values.dtype)
    np.clip(values, -edge, edge, out=made[:-1])
    beyond = 0
    if values.size and (values.min() < -edge or values.max() > edge):
        beyond = int(np.count_nonzero(values < -edge)) + int(np.count_nonzero(values > edge))
    made[-1] = min(units_beyond(beyond, values.size, fixed) * fixed.step, edge)
    return made


def edge_of(fixed: FixedPoint, kind: type[np.floating[Any]]) -> float:
    """The largest number of this kind within ±clip in double precision, as it is checked later."""
    edge = kind(fixed.clip)
    return float(edge if float(edge) <= fixed.clip else np.nextafter(edge, kind(0)))


def units_beyond(beyond: int, size: int, fixed: FixedPoint) -> int:
    """So many of `size` coordinates beyond ±clip, in the units in which `saturated` counts."""
    return -(-beyond // _unit(size, fixed))


def share_saturated(counted: float, size: int, fixed: FixedPoint) -> float:
    """The share of `size` coordinates beyond ±clip, from a mean of what `saturated` put last.

    Raises where it is so large that the mean is another than the clients' own.
    """
    if size < 1:
        return 0.0
    share = counted / fixed.step * _unit(size, fixed) / size
    if share > _MOST_SATURATED:
        raise RangeExceeded(
            f"{100 * share:.3g} % of the coordinates lay beyond clip_range={fixed.clip:g}, more "
            f"than the {100 * _MOST_SATURATED:g} % that a sum may hold; raise clip_range, or clip "
            "the updates."
        )
    return share


def _unit(size: int, fixed: FixedPoint) -> int:
    """How many saturated coordinates one unit of the count stands for."""
    return max(1, -(-size // fixed.levels))
