"""What is tuned of a mechanism: one number, its values, and the way that protects more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["Parameter"]


@dataclass(frozen=True)
class Parameter:
    """Its symbol, its meaning, the way that protects more, and its least and largest value.

    All values are positive and finite: 0 and ∞ in `domain` stand for no end.

    >>> share = Parameter("ρ", "probability of keeping a coordinate", "smaller", (0.0, 1.0))
    >>> round(share.moved(0.5, 1), 12), share.decades(0.5, 0.05), share.within(2.0)
    (0.05, 1.0, 1.0)
    """

    symbol: str
    meaning: str
    stronger: Literal["larger", "smaller"]
    domain: tuple[float, float] = (0.0, math.inf)

    def moved(self, value: float, decades: float) -> float:
        """The value that is 10^decades times as strong."""
        return float(value * 10 ** (decades if self.stronger == "larger" else -decades))

    def decades(self, start: float, value: float) -> float:
        """log₁₀ of how many times as strong as `start` a value is."""
        decades = math.log10(value / start)
        return decades if self.stronger == "larger" else -decades

    def within(self, value: float) -> float:
        """The value, or the end of the domain that it lies beyond."""
        low, high = self.domain
        return min(high, max(low, value))
