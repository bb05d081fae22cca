"""From counts to leakage with an interval: of one client, and the mean over clients.

Leakage is H_κ(p) = √(JS(Bern(p), Bern(κ)) / ln 2) of the success rate p, so an exact interval of
p carries over. κ = 0, the default, is conservative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from trilemma.beliefs.belief import bernoulli_leakage, system_leakage
from trilemma.beliefs.intervals import Interval, clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Polygon = tuple["NDArray[np.float64]", "NDArray[np.float64]"]

__all__ = ["Estimate", "client_leakage", "mean_leakage", "success_rate"]


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def success_rate(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Share of successes with its Clopper-Pearson interval."""
    interval = clopper_pearson(successes, trials, confidence)
    return Estimate(successes / trials, interval.low, interval.high)


def client_leakage(
    successes: int, trials: int, *, confidence: float = 0.95, kappa: float = 0.0
) -> Estimate:
    """H_κ of one client's success rate; H_κ is monotone, so the rate's limits carry over.

    >>> client_leakage(0, 100).value, round(client_leakage(0, 100).high, 3)
    (0.0, 0.135)
    """
    rate = success_rate(successes, trials, confidence)
    return Estimate(
        bernoulli_leakage(rate.value, kappa),
        bernoulli_leakage(rate.low, kappa),
        bernoulli_leakage(rate.high, kappa),
    )


def mean_leakage(
    successes: Sequence[int], trials: int, *, confidence: float = 0.95, kappa: float = 0.0
) -> Estimate:
    """Mean over clients of H_κ(p_k), from `trials` units of each client.

    The pooled count gives an exact interval [L, U] for the mean rate p̄: a sum of binomials with
    different rates is less dispersed than the binomial with their mean (Hoeffding 1956). H_κ is
    neither convex nor concave, so the mean of H_κ(p_k) given p̄ lies between its convex envelope
    at L and its concave envelope at U. With one client that is just H_κ(L) and H_κ(U).
    """
    value, _ = system_leakage([bernoulli_leakage(s / trials, kappa) for s in successes])
    if len(successes) == 1:
        return client_leakage(successes[0], trials, confidence=confidence, kappa=kappa)
    pooled = clopper_pearson(sum(successes), trials * len(successes), confidence)
    envelope = _envelope_at(pooled, kappa)
    return Estimate(value, envelope.low, envelope.high)


def _envelope_at(rate: Interval, kappa: float) -> Interval:
    (low_x, low_y), (high_x, high_y) = _envelopes(kappa)
    return Interval(
        float(np.interp(rate.low, low_x, low_y)), float(np.interp(rate.high, high_x, high_y))
    )


@lru_cache(maxsize=32)
def _envelopes(kappa: float) -> tuple[_Polygon, _Polygon]:
    """Corners of the convex and the concave envelope of H_κ.

    The grid is fine where the gradient of H_κ is infinite: at 0 and at 1.
    """
    angle = np.linspace(0, np.pi / 2, 1001)
    points = np.unique(np.concatenate([np.sin(angle) ** 4, 1 - np.cos(angle) ** 4]))
    values = np.array([bernoulli_leakage(float(p), kappa) for p in points])
    lower, upper = _lower_hull(points, values), _lower_hull(points, -values)
    return (points[lower], values[lower]), (points[upper], values[upper])


def _lower_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """Indices of the corners of the convex envelope of y over increasing x (monotone chain)."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
