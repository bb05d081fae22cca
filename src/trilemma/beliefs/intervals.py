"""Confidence intervals for a success rate, and the sample sizes that they imply."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trilemma.errors import InvalidInput
from trilemma.quantities import between

__all__ = [
    "Interval",
    "acceptance_size",
    "clopper_pearson",
    "clopper_pearson_upper",
    "first_true",
    "zero_success_size",
]


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval [low, high]."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Exact interval: covers the true rate with probability ≥ `confidence`, whatever the rate.

    >>> interval = clopper_pearson(0, 100)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.0362)
    """
    _check(successes, trials, confidence)
    tail = (1 - confidence) / 2
    low = _beta_quantile(successes, trials - successes + 1, tail) if successes else 0.0
    return Interval(low, _upper(successes, trials, tail))


def clopper_pearson_upper(successes: int, trials: int, confidence: float = 0.95) -> float:
    """One-sided exact upper limit: the whole error probability lies above it.

    >>> round(clopper_pearson_upper(0, 100), 4)
    0.0295
    """
    _check(successes, trials, confidence)
    return _upper(successes, trials, 1 - confidence)


def zero_success_size(p_max: float, alpha: float) -> int:
    """Fewest trials in which no success at all shows p ≤ p_max at level alpha: (1-p)ⁿ ≤ α.

    >>> [zero_success_size(p, 0.04) for p in (0.01, 0.03, 0.05, 0.1, 0.2)]
    [321, 106, 63, 31, 15]
    """
    return acceptance_size(0, p_max, alpha)


def acceptance_size(successes: int, p_max: float, alpha: float) -> int:
    """n(c) = min{n : P(Bin(n, p_max) ≤ c) ≤ α}: trials in which c successes still show p ≤ p_max.

    >>> acceptance_size(2, 0.1, 0.04)
    64
    """
    if successes < 0:
        raise InvalidInput(f"successes must not be negative, got {successes}.")
    between("p_max", p_max)
    between("alpha", alpha)
    if successes == 0:
        return max(1, math.ceil(math.log(alpha) / math.log1p(-p_max)))
    from scipy.special import bdtr  # heavy: the command line must start without it

    # The probability falls as n grows.
    return first_true(lambda size: bool(bdtr(successes, size, p_max) <= alpha), successes)


def first_true(holds: Callable[[int], bool], low: int) -> int:
    """The least n above `low` for which something holds that holds for all larger ones too.

    >>> first_true(lambda n: n * n >= 50, 0)
    8
    """
    high = 2 * low + 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _upper(successes: int, trials: int, tail: float) -> float:
    if successes == trials:
        return 1.0
    return _beta_quantile(successes + 1, trials - successes, 1 - tail)


def _beta_quantile(a: int, b: int, probability: float) -> float:
    from scipy.special import betaincinv  # heavy, as above

    return float(betaincinv(a, b, probability))


def _check(successes: int, trials: int, confidence: float) -> None:
    if trials < 1 or not 0 <= successes <= trials:
        raise InvalidInput(
            f"an interval needs 0 <= successes <= trials and at least one trial, "
            f"got {successes} of {trials}."
        )
    between("confidence", confidence)
