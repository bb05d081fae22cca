"""The shape of a record and the range of its entries: all that an attack takes for granted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trilemma.errors import InvalidInput

__all__ = ["InputSpec"]


@dataclass(frozen=True)
class InputSpec:
    """Shape of one record's input and the range [low, high] of its entries."""

    shape: tuple[int, ...]
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.shape or any(size < 1 for size in self.shape):
            raise InvalidInput(f"an input's shape must have positive sizes, got {self.shape}.")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"inputs must lie in a finite range low < high, got [{self.low}, {self.high}]; "
                f"rescale the data."
            )

    @property
    def size(self) -> int:
        """Number of entries of one record's input."""
        return math.prod(self.shape)
