"""The attacker's belief before and after it looks, and the leakage between the two.

Units: the paper wants leakage in [0, 1], but √JS in nats ends at √(ln 2) = 0.8326. Everything
public here is normalised once, leakage = √(JS / ln 2) ∈ [0, 1], that is, with base-2 logarithms.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.beliefs.divergences import jensen_shannon, jensen_shannon_rows
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "bernoulli_leakage",
    "largest_mean_success_rate",
    "largest_success_rate",
    "leakage",
    "mean_leakage_bound",
    "posterior_belief",
    "system_leakage",
]

LN2: Final = math.log(2)


def leakage(posterior: ArrayLike, prior: ArrayLike) -> float:
    """Leakage ε_{p,k} = √(JS(F^A ‖ F^B) / ln 2) of one client (eq. def_of_pl, normalised).

    >>> leakage([1.0, 0.0], [0.0, 1.0])
    1.0
    """
    return math.sqrt(min(jensen_shannon(posterior, prior) / LN2, 1.0))


def system_leakage(per_client: Sequence[float]) -> tuple[float, float]:
    """Mean over clients (the paper's ε_p) and maximum (what the worst-off client suffers).

    >>> system_leakage([0.25, 0.75])
    (0.5, 0.75)
    """
    if not per_client:
        raise InvalidInput("the leakage of a system needs at least one client.")
    return math.fsum(per_client) / len(per_client), max(per_client)


def posterior_belief(conditional: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """f^A(d) = Σ_w f(d|w) P(w): belief averaged over released w (the paper, below eq. def_of_pl).

    `conditional` is a table [w, d] of beliefs f(d|w), `weights` [w] the distribution of the
    released w.
    """
    table, distribution = (
        np.asarray(conditional, dtype=np.float64),
        np.asarray(weights, dtype=np.float64),
    )
    if table.ndim != 2 or distribution.shape != table.shape[:1]:
        raise InvalidInput(
            f"a table [w, d] and weights [w] are needed, got {table.shape} and "
            f"{distribution.shape}."
        )
    belief: NDArray[np.float64] = distribution @ table
    return belief


def bernoulli_leakage(success: float, kappa: float = 0.0) -> float:
    """H_κ(p) = √(JS(Bern(p), Bern(κ)) / ln 2) for p ≥ κ, else 0.

    κ is the rate at which a blind guess succeeds. The prior puts mass κ on the data and 1 - κ on
    "nothing recovered", so an attacker that does no better than guessing leaks nothing.

    >>> round(bernoulli_leakage(0.286), 3)
    0.4
    >>> bernoulli_leakage(0.01, kappa=0.02)
    0.0
    """
    _check_rate("success", success)
    _check_rate("kappa", kappa)
    if success <= kappa:
        return 0.0
    return leakage([success, 1 - success], [kappa, 1 - kappa])


def largest_success_rate(budget: float, kappa: float = 0.0) -> float:
    """H_κ⁻¹: the largest success rate p whose leakage H_κ(p) is at most `budget`.

    >>> [round(largest_success_rate(b), 3) for b in (0.1, 0.2, 0.4, 0.6)]
    [0.02, 0.078, 0.286, 0.559]
    """
    from scipy.optimize import brentq  # heavy: the command line must start without it

    _check_rate("budget", budget)
    _check_rate("kappa", kappa)
    if bernoulli_leakage(1.0, kappa) <= budget:
        return 1.0
    # Brent works on ln(p - κ), so that a rate close to the guess keeps its relative accuracy.
    low, high = math.log(1e-300), math.log1p(-kappa)
    if budget == 0.0 or _excess(low, kappa) >= budget:
        return kappa
    root = brentq(lambda x: _excess(x, kappa) - budget, low, high, xtol=1e-14, rtol=1e-14)
    return min(1.0, kappa + math.exp(root))


def largest_mean_success_rate(budget: float, kappa: float) -> float:
    """The largest mean success rate of clients whose mean leakage H_κ is at most `budget`.

    H_κ is 0 up to κ, concave above it, and convex towards 1, so clients of different rates may
    leak more on average than their mean rate does. The inverse of its concave hull over [0, 1]
    bounds both one client and the mean: a chord from 0, H_κ itself, and a chord to 1. It is never
    above `largest_success_rate`.

    >>> [round(largest_mean_success_rate(0.3, 1 / n), 3) for n in (20, 38, 100, 1000)]
    [0.308, 0.258, 0.212, 0.176]
    """
    _check_rate("budget", budget)
    _check_rate("kappa", kappa)
    top = bernoulli_leakage(1.0, kappa)
    if budget >= top:
        return 1.0
    first, last = _hull_corners(kappa)
    low, high = bernoulli_leakage(first, kappa), bernoulli_leakage(last, kappa)
    if first >= last or budget <= low:
        return budget * first / low
    if budget <= high:
        return largest_success_rate(budget, kappa)
    return 1 - (top - budget) * (1 - last) / (top - high)


def mean_leakage_bound(rate: float, kappa: float) -> float:
    """The largest mean leakage of clients whose mean success rate is `rate`.

    The concave hull of H_κ at `rate`: the inverse of `largest_mean_success_rate`.

    >>> [round(mean_leakage_bound(1 / 6, 1 / n), 3) for n in (20, 100, 1000)]
    [0.166, 0.256, 0.291]
    """
    _check_rate("rate", rate)
    _check_rate("kappa", kappa)
    first, last = _hull_corners(kappa)
    if first >= last or rate <= first:
        return rate * bernoulli_leakage(first, kappa) / first
    if rate <= last:
        return bernoulli_leakage(rate, kappa)
    top, high = bernoulli_leakage(1.0, kappa), bernoulli_leakage(last, kappa)
    return top - (1 - rate) * (top - high) / (1 - last)


@lru_cache(maxsize=32)
def _hull_corners(kappa: float) -> tuple[float, float]:
    """Where H_κ leaves the chord from 0, and where it joins the chord to 1."""
    from scipy.optimize import minimize_scalar  # heavy, as above

    top = bernoulli_leakage(1.0, kappa)
    # Fine next to κ, where the first corner lies for small κ.
    points = kappa + (1 - kappa) * np.linspace(0, 1, 2001)[1:] ** 2
    distributions, blind = np.stack([points, 1 - points], axis=-1), np.array([kappa, 1 - kappa])
    values = np.sqrt(np.minimum(jensen_shannon_rows(distributions, blind) / LN2, 1.0))
    steepest, flattest = values / points, (top - values[:-1]) / (1 - points[:-1])

    def refine(target: Callable[[float], float], at: int) -> float:
        ends = float(points[max(at - 1, 0)]), float(points[min(at + 1, len(points) - 1)])
        found = minimize_scalar(target, bounds=ends, method="bounded", options={"xatol": 1e-12})
        return min((float(found.x), float(points[at])), key=target)

    first = refine(lambda p: -bernoulli_leakage(p, kappa) / p, int(np.argmax(steepest)))
    last = refine(
        lambda p: (top - bernoulli_leakage(p, kappa)) / max(1 - p, 1e-15), int(np.argmin(flattest))
    )
    return first, last


def _excess(log_gap: float, kappa: float) -> float:
    return bernoulli_leakage(min(1.0, kappa + math.exp(log_gap)), kappa)


def _check_rate(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidInput(f"{name} must lie in [0, 1], got {value}.")
