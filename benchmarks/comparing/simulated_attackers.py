"""Attackers with known success curves, to measure a calibration against the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from trilemma.errors import UnknownName
from trilemma.quantities import between

if TYPE_CHECKING:
    from trilemma.tuning.calibration.outcomes import Trials

__all__ = ["CURVES", "WIDE", "SimulatedAttacker"]

Found = TypeVar("Found")
_DECADES: Final = {"steep": 0.15, "moderate": 0.45, "flat": 1.5}  # from success .9 to .1
_BOTH_TAILS: Final = 2 * float(ndtri(0.9))  # the same fall in units of sd
_ENDS: Final = (float(ndtri(0.37)), float(ndtri(0.13)))  # of a wide fall, two decades apart
CURVES: Final = (*_DECADES, "step", "plateau", "bump", "everywhere")
WIDE: Final = "wide"


@dataclass(frozen=True)
class SimulatedAttacker:
    """p(x) by name, at its middle at x = middle.

    steep, moderate, flat: Φ((middle - x)/sd), from .9 to .1 within .15, .45 and 1.5 decades; wide:
    as smoothly from .37 to .13 between a decade before the middle and one after it; step:
    .95, then .005; plateau: moderate, but never below .02; bump: moderate, with a second rise to
    .7 at .8 decades beyond the middle; everywhere: 1.001·p_max at every strength.

    >>> attacker = SimulatedAttacker("moderate", 0.286)
    >>> round(attacker.success(0.0), 3), round(attacker.weakest, 3)
    (0.5, 0.099)
    """

    curve: str
    p_max: float
    middle: float = 0.0

    def __post_init__(self) -> None:
        if self.curve not in (*CURVES, WIDE):
            raise UnknownName("curve", self.curve, (*CURVES, WIDE))
        between("p_max", self.p_max)

    @property
    def sd(self) -> float:
        """Of the curve's fall, in decades; a step is as sharp as the lattice of strengths."""
        if self.curve == "step":
            return 0.01
        if self.curve == WIDE:
            return 2 / (_ENDS[0] - _ENDS[1])
        return _DECADES.get(self.curve, _DECADES["moderate"]) / _BOTH_TAILS

    @property
    def half(self) -> float:
        """Where Φ((half - x)/sd) is one half: at the middle, or of a wide fall far before it."""
        return self.middle + (self.sd * sum(_ENDS) / 2 if self.curve == WIDE else 0.0)

    def success(self, x: float) -> float:
        """The true success rate at strength x."""
        if self.curve == "everywhere":
            return 1.001 * self.p_max
        if self.curve == "step":
            return 0.95 if x < self.middle else 0.005
        falling = float(ndtr((self.half - x) / self.sd))
        if self.curve == "plateau":
            return 0.02 + 0.98 * falling
        if self.curve == "bump":
            return max(falling, 0.7 * math.exp(-(((x - self.middle - 0.8) / 0.12) ** 2)))
        return falling

    @property
    def weakest(self) -> float:
        """inf{x : p(x) ≤ p_max}, what a perfect calibration would return; ∞ if there is none."""
        if self.curve == "step":
            return self.middle if self.p_max >= 0.005 else math.inf
        floor = 0.02 if self.curve == "plateau" else 0.0
        if self.curve == "everywhere" or self.p_max <= floor:
            return math.inf
        return self.half - self.sd * float(ndtri((self.p_max - floor) / (1 - floor)))

    def won(self, x: float, units: int, generator: np.random.Generator) -> int:
        """Of independent units at strength x those that fall, each with probability p(x)."""
        return int(generator.binomial(units, self.success(x)))

    def play(self, trials: Trials[Found], generator: np.random.Generator) -> Found:
        """What comes of trials that this attacker plays."""
        try:
            wanted = next(trials)
            while True:
                won = [self.won(item.strength, item.units, generator) for item in wanted]
                wanted = trials.send(won)
        except StopIteration as end:
            found: Found = end.value
            return found
