"""What transports on a fixed-point grid share: the grid, its range, and what binds a message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trilemma.crypto.packing import FixedPoint
from trilemma.errors import InvalidInput
from trilemma.protections.transports.base import Transport
from trilemma.quantities import positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FixedPointTransport", "check_range"]


@dataclass(frozen=True, kw_only=True)
class FixedPointTransport(Transport):
    """Carries whole units of a grid, whose sums are exact.

    `clip_range` is the largest coordinate, `precision_bits` the bits of a value, `max_weight` the
    public cap on the sum of all weights.
    """

    clip_range: float = 1.0
    precision_bits: int = 16
    max_weight: int = 10_000

    def __post_init__(self) -> None:
        clip_range = positive("clip_range (largest coordinate)", self.clip_range)
        object.__setattr__(self, "clip_range", clip_range)
        object.__setattr__(self, "precision_bits", self.fixed.bits)
        object.__setattr__(self, "max_weight", self.fixed.max_weight)

    @cached_property
    def fixed(self) -> FixedPoint:
        return FixedPoint(self.clip_range, self.precision_bits, self.max_weight)

    def bound_label(self, label: bytes) -> bytes:
        """The label with these settings, as clients that differ in them cannot be summed."""
        return self.describe().encode() + b"\0" + label


def check_range(values: NDArray[Any], fixed: FixedPoint, client: int) -> None:
    """Raises unless every value is a number within the transport's range."""
    largest = max(-float(values.min()), float(values.max())) if values.size else 0.0
    if not largest <= fixed.clip:  # so that NaN is caught, which min and max pass on
        raise InvalidInput(
            f"client {client} would send a coordinate of magnitude {largest:g}, beyond the "
            f"transport's clip_range of {fixed.clip:g}; clip the update, or raise clip_range."
        )
