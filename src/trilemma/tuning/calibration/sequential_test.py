"""Exact sequential tests of "the success rate is at most p_max", and what they cost.

A test looks at its units as they arrive. After n units with S successes it passes when S ≤ s·n - h
and fails when S ≥ s·n + h', the lines of Wald's sequential probability ratio test, cut off at a
largest n. The offset h is the smallest for which P(pass) ≤ level at p = p_max, summed over all
paths, so no approximation enters the level. It then holds for every p > p_max too: a path with
fewer successes at every look passes whenever one with more does, hence P(pass) falls with p.
Where a test of fixed size takes 137 units (p_max = .078, level .04, power .87 at p = .023), this
one takes 92 on average at that p, 61 at p_max, 26 at 2·p_max, and 65 where p = .008.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.special import bdtr, gammaln, ndtr, ndtri, xlog1py, xlogy

from trilemma.beliefs.intervals import acceptance_size, zero_success_size
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SMALLEST_BATCH",
    "SequentialTest",
    "exact_operation",
    "fixed_size",
    "sequential_test",
    "usual_test",
]

SMALLEST_BATCH: Final = 6  # attacks run in batches: looking after every unit would starve them
_LARGEST: Final = 1000  # units that only a small separation asks for
_MISS: Final = 0.15  # P(fail) aimed at where the rate is the alternative
_RATES: Final = ndtr(np.linspace(-5, 5, 161))  # where pass probabilities are tabulated


@dataclass(frozen=True)
class SequentialTest:
    """Looks n₁ < n₂ < …: at look k the test passes with ≤ accept[k], fails with ≥ reject[k]."""

    p_max: float
    level: float
    looks: tuple[int, ...]
    accept: tuple[int, ...]
    reject: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.looks) == len(self.accept) == len(self.reject) > 0:
            counts = len(self.looks), len(self.accept), len(self.reject)
            raise InvalidInput(
                f"a sequential test needs one pair of limits at each look, got {counts}."
            )
        if self.reject[-1] != self.accept[-1] + 1:
            raise InvalidInput(
                f"a sequential test must decide at its last look, got {self.accept[-1]} to pass "
                f"and {self.reject[-1]} to fail."
            )

    def decide(self, look: int, successes: int) -> Literal["pass", "fail"] | None:
        """The decision at a look; None asks for the next one."""
        if successes <= self.accept[look]:
            return "pass"
        return "fail" if successes >= self.reject[look] else None

    @property
    def soonest(self) -> int:
        """The first look at which the test can pass: it does where nothing was won."""
        return next(look for look in range(len(self.looks)) if self.decide(look, 0) == "pass")

    def pass_probability(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(pass | p) for each p, interpolated in a table of exact values."""
        result: NDArray[np.float64] = np.interp(rates, _RATES, _table(self))
        return result


def exact_operation(
    test: SequentialTest, rates: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(pass) and E[units] at each rate: forward recursion over the number of successes."""
    width = max(test.reject)
    alive = np.zeros((len(rates), width))
    alive[:, 0] = 1.0
    passed, units = np.zeros(len(rates)), np.zeros(len(rates))
    previous = 0
    for look, accept, reject in zip(test.looks, test.accept, test.reject, strict=True):
        batch = look - previous
        units += batch * alive.sum(axis=1)
        hits = np.arange(min(batch, width - 1) + 1)
        chance = np.exp(
            gammaln(batch + 1)
            - gammaln(hits + 1)
            - gammaln(batch - hits + 1)
            + xlogy(hits, rates[:, None])
            + xlog1py(batch - hits, -rates[:, None])
        )
        moved = np.zeros_like(alive)
        for k in hits:  # what moves beyond the width has failed for certain
            moved[:, k:] += alive[:, : width - k] * chance[:, k, None]
        passed += moved[:, : accept + 1].sum(axis=1)
        moved[:, : accept + 1] = 0.0
        moved[:, reject:] = 0.0
        alive, previous = moved, look
    return passed, units


@lru_cache(maxsize=512)
def _table(test: SequentialTest) -> NDArray[np.float64]:
    return exact_operation(test, _RATES)[0]


@lru_cache(maxsize=512)
def fixed_size(p_max: float, level: float, alternative: float, largest: int) -> tuple[int, int]:
    """(n, c) of the smallest test of fixed size with P(pass) ≥ .85 at the alternative rate.

    n(c) = min{n : P(Bin(n, p_max) ≤ c) ≤ level}; c grows until the power is there or n > largest.

    >>> fixed_size(0.286, 0.04, 0.05, 1000)
    (21, 2)
    """
    c, size = 0, zero_success_size(p_max, level)
    while bdtr(c, size, alternative) < 1 - _MISS:
        following = acceptance_size(c + 1, p_max, level)
        if following > largest:
            break
        c, size = c + 1, following
    return size, c


@lru_cache(maxsize=512)
def sequential_test(p_max: float, level: float, separation: float, largest: int) -> SequentialTest:
    """The test of p ≤ p_max with the power aimed at p = Φ(Φ⁻¹(p_max) - separation).

    >>> test = sequential_test(0.286, 0.04, 1.0, 200)
    >>> test.looks[0], test.accept[0], test.looks[-1], test.accept[-1]
    (6, -1, 32, 3)
    """
    alternative = float(ndtr(ndtri(p_max) - separation))
    odds = math.log(p_max * (1 - alternative) / (alternative * (1 - p_max)))
    gradient = math.log((1 - alternative) / (1 - p_max)) / odds
    size, _ = fixed_size(p_max, level, alternative, largest)
    longest = max(zero_success_size(p_max, level), min(largest, math.ceil(1.5 * size)))
    ratio = math.log(1 / _MISS) / math.log(1 / level)
    at_null = np.array([p_max])
    # h at Wald's own value is valid (overshoot makes it conservative); 0 passes far too often.
    low, high = 0.0, math.log(1 / level) / odds
    best = _lines(p_max, level, gradient, high, ratio, longest)
    for _ in range(12):
        middle = (low + high) / 2
        test = _lines(p_max, level, gradient, middle, ratio, longest)
        if exact_operation(test, at_null)[0][0] <= level:
            high, best = middle, test
        else:
            low = middle
    return best


def usual_test(p_max: float, level: float, separation: float) -> SequentialTest:
    """The same, of 1,000 units at most, or of six times what a test without a success takes."""
    least = zero_success_size(p_max, level)
    return sequential_test(p_max, level, separation, max(6 * least, _LARGEST))


def _lines(
    p_max: float, level: float, gradient: float, h: float, ratio: float, longest: int
) -> SequentialTest:
    """Looks where one more success is allowed, a batch or a sixth of the way apart at least.

    Between two that lie far apart (a small p_max) the test may still fail, but not pass.
    """
    sizes = [math.ceil((c + h) / gradient) for c in range(math.floor(gradient * longest - h) + 1)]
    looks: list[int] = []
    accept: list[int] = []
    at, allowed = 0, -1
    for c, size in enumerate(sizes or [math.ceil(h / gradient)]):
        if size - at < max(SMALLEST_BATCH, at / 6) and size != sizes[-1]:
            continue
        pieces = max(1, int((size - at) / max(SMALLEST_BATCH, h / gradient / 4, at / 6)))
        looks += [at + round((size - at) * piece / pieces) for piece in range(1, pieces + 1)]
        accept += [allowed] * (pieces - 1) + [c]
        at, allowed = size, c
    last = accept[-1]
    reject = [min(last + 1, max(2, math.ceil(gradient * n + ratio * h))) for n in looks]
    reject[-1] = last + 1
    return SequentialTest(p_max, level, tuple(looks), tuple(accept), tuple(reject))
