"""From distortion to leakage: the paper's surrogate, and what really holds.

The only file that knows C₁ and C₂. Below, x = C₂·TV and q = (2C₁ - ε)/C₂ for a budget ε.
All leakages are normalised (see `trilemma.beliefs.belief`). Labels E1 … E20 are the departures
listed in docs/paper-map.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from trilemma.beliefs.intervals import Interval, first_true
from trilemma.errors import InvalidInput
from trilemma.quantities import between, counted, finite, positive

__all__ = [
    "Constants",
    "Regime",
    "c1_error_bound",
    "chernoff_error",
    "chernoff_failure",
    "chernoff_sample_size",
    "leakage_error_bound",
    "log_c2",
    "posterior_shift_bound",
    "system_bounds",
]

Reading = Literal["printed", "corrected"]
_LN2: Final = math.log(2)


class Regime(StrEnum):
    """Where a budget lies against C₁ (Theorem privacy_leakage_upper_bound and E3)."""

    NO_PROTECTION_NEEDED = "no-protection-needed"  # 2C₁ ≤ ε
    BELOW_C1 = "below-c1"  # C₁ ≤ ε < 2C₁: at the optimum x = 2C₁ - ε ≤ C₁
    ABOVE_C1 = "above-c1"  # ε < C₁: at the optimum x > C₁, outside the metric's own case
    INFEASIBLE = "infeasible"  # no distortion is large enough


@dataclass(frozen=True)
class Constants:
    """C₁ (leakage of unprotected updates) and C₂ (how fast belief follows the parameters).

    >>> constants = Constants(c1=0.5, c2=2.0)
    >>> constants.required_distortion(0.6), constants.surrogate_leakage(0.2)
    (0.2, 0.6)
    """

    c1: float
    c2: float

    def __post_init__(self) -> None:
        if not 0 < finite("c1 (leakage of unprotected updates)", self.c1) <= 1:
            raise InvalidInput(
                f"c1 (normalised leakage of unprotected updates) must lie in (0, 1], "
                f"got {self.c1}; a leakage in nats divides by sqrt(ln 2) = 0.8326."
            )
        positive("c2 (how fast belief follows the parameters)", self.c2)

    @classmethod
    def from_xi(cls, c1: float, xi: float) -> Constants:
        """The constants for a maximal log-ratio ξ of belief to prior."""
        logarithm = log_c2(xi)
        if logarithm > 709:
            raise InvalidInput(
                f"xi = {xi} makes C2 overflow (ln C2 = {logarithm:.6g}); "
                f"smooth the estimated beliefs, or tune by measurement."
            )
        return cls(c1, math.exp(logarithm))

    def required_distortion(self, budget: float) -> float:
        """q = (2C₁ - ε)/C₂: the mean TV at which the metric meets the budget (Alg. meta)."""
        return (2 * self.c1 - _checked(budget)) / self.c2

    def surrogate_leakage(self, tv: float) -> float:
        """The paper's metric ε̃ = 2C₁ - C₂·TV (eq. privacy_leakage_tv); no bound, see E3."""
        return 2 * self.c1 - self.c2 * tv

    def printed_bound(self, tv: float) -> float:
        """Theorem privacy_leakage_upper_bound as printed: max{2C₁ - x, 3x - C₁}; false (E1, E2).

        >>> Constants(0.5, 1.0).printed_bound(0.25), Constants(0.5, 1.0).printed_bound(0.75)
        (0.75, 1.75)
        """
        x = self.c2 * tv
        return max(2 * self.c1 - x, 3 * x - self.c1)

    def leakage_range(self, tv: float) -> Interval:
        """What really holds: |leakage - C₁| ≤ x (triangle inequality), within [0, 1].

        >>> Constants(0.5, 1.0).leakage_range(0.25)
        Interval(low=0.25, high=0.75)
        """
        x = self.c2 * tv
        return Interval(max(0.0, self.c1 - x), min(1.0, self.c1 + x))

    def proves(self, budget: float, tv_upper: float) -> bool:
        """Whether C₁ + C₂·TV ≤ ε follows, given an exact TV or an upper bound of it (E20)."""
        return self.c1 + self.c2 * tv_upper <= budget

    def regime(self, budget: float) -> Regime:
        """The regime of a budget whose optimum exists."""
        if _checked(budget) >= 2 * self.c1:
            return Regime.NO_PROTECTION_NEEDED
        return Regime.BELOW_C1 if budget >= self.c1 else Regime.ABOVE_C1


def log_c2(xi: float) -> float:
    """log C₂ with C₂ = (e^{2ξ} - 1)/(2√(ln 2)), the paper's ½(e^{2ξ} - 1) in normalised units.

    >>> round(math.exp(log_c2(0.5)), 6)
    1.031933
    """
    positive("xi (largest log-ratio of belief to prior)", xi)
    return 2 * xi - _LN2 + math.log(-math.expm1(-2 * xi)) - 0.5 * math.log(_LN2)


def posterior_shift_bound(tv: float, xi: float) -> float:
    """Sharper forms of |leakage - C₁| ≤ C₂·TV: the least of C₂·TV, e^{ξ/2} sinh ξ · TV and √TV.

    The second follows from JS ≤ (ln 2 / 2) Σ (p-q)²/(p+q) with |p - q| ≤ 2 sinh ξ · TV · f_B and
    p, q ≥ e^{-ξ} f_B, and is e^{-ξ/2} √(ln 2) times the first; the third is data processing with
    JS ≤ ln 2 · TV and needs no constant at all.
    """
    if not 0 <= tv <= 1:
        raise InvalidInput(f"tv must lie in [0, 1], got {tv}.")
    if tv == 0:
        return 0.0
    log_linear = min(0.0, log_c2(xi) - xi / 2 + 0.5 * math.log(_LN2) + math.log(tv))
    return min(math.exp(log_linear), math.sqrt(tv))


def system_bounds(
    c1_per_client: Sequence[float], c2: float, tv_per_client: Sequence[float]
) -> tuple[float, float]:
    """Theorem's bound for the system: as printed, and as the client bounds really imply (E4).

    Printed: max{2C̄₁ - x̄, 3x̄ - C̄₁} of the means. Implied: the mean over k of
    max{2C₁,ₖ - xₖ, 3xₖ - C₁,ₖ}, which is never smaller.

    >>> printed, implied = system_bounds([0.2, 0.6], 1.0, [0.5, 0.1])
    >>> round(printed, 3), round(implied, 3)
    (0.5, 1.2)
    """
    clients = [Constants(c1, c2) for c1 in c1_per_client]
    implied = [c.printed_bound(tv) for c, tv in zip(clients, tv_per_client, strict=True)]
    count = len(clients)
    mean_c1, mean_tv = math.fsum(c1_per_client) / count, math.fsum(tv_per_client) / count
    return Constants(mean_c1, c2).printed_bound(mean_tv), math.fsum(implied) / count


def c1_error_bound(relative_error: float, form: Reading = "corrected") -> float:
    """|Ĉ₁ - C₁| when every belief is known to a relative error e (Theorem error_for_C_1).

    printed: √(((1+e) log((1+e)/(1-e)) + e + max{log(1+e), -log(1-e)})/2) nats;
    corrected (E9): e √(ln 2 / (2(2-e))) nats. Both are returned in normalised units.

    >>> round(c1_error_bound(0.1), 4), round(c1_error_bound(0.1, "printed"), 4)
    (0.0513, 0.5544)
    """
    e = relative_error
    if not 0 <= e < 1:
        raise InvalidInput(f"relative error must lie in [0, 1), got {relative_error}.")
    if form == "corrected":
        return e / math.sqrt(2 * (2 - e))
    up, down = math.log1p(e), -math.log1p(-e)
    return math.sqrt(((1 + e) * (up + down) + e + max(up, down)) / 2 / _LN2)


def leakage_error_bound(relative_error: float, form: Reading = "corrected") -> float:
    """Error of the metric ε̃ (Theorem estimation_error_privacy): 3/2 printed, 2 corrected (E9)."""
    factor = 1.5 if form == "printed" else 2.0
    return factor * c1_error_bound(relative_error, form)


def chernoff_failure(relative_error: float, trials: int, rates: Sequence[float]) -> float:
    """Probability 2 Σ_d exp(-e² T κ(d)/3) that some belief errs by more than e·κ(d) (capped).

    >>> round(chernoff_failure(0.1, 7948, [0.2] * 5), 4)
    0.05
    """
    _check_chernoff(relative_error, rates)
    counted("trials", trials)
    exponents = (-(relative_error**2) * trials * rate / 3 for rate in rates)
    return min(1.0, 2 * math.fsum(math.exp(exponent) for exponent in exponents))


def chernoff_sample_size(relative_error: float, alpha: float, rates: Sequence[float]) -> int:
    """Fewest trials T for which the Chernoff lemma promises failure ≤ alpha (E18: far too many).

    >>> chernoff_sample_size(0.1, 0.05, [0.2] * 5)
    7948
    """
    _check_chernoff(relative_error, rates)
    between("alpha", alpha)
    return first_true(lambda trials: chernoff_failure(relative_error, trials, rates) <= alpha, 0)


def chernoff_error(trials: int, alpha: float, rates: Sequence[float]) -> float | None:
    """The least relative error that the Chernoff lemma promises but for `alpha`; None: 1 or more.

    >>> round(chernoff_error(7948, 0.05, [0.2] * 5), 4), chernoff_error(10, 0.05, [0.2] * 5)
    (0.1, None)
    """
    from scipy.optimize import brentq  # heavy: the command line must start without it

    def excess(error: float) -> float:
        return chernoff_failure(error, trials, rates) - alpha

    _check_chernoff(0.5, rates)
    between("alpha", alpha)
    largest = 1 - 1e-12
    return None if excess(largest) > 0 else float(brentq(excess, 1e-12, largest))


def _checked(budget: float) -> float:
    return between("budget (largest tolerated leakage, normalised)", budget)


def _check_chernoff(relative_error: float, rates: Sequence[float]) -> None:
    between("relative error", relative_error)
    if not rates or not all(0 < rate <= 1 for rate in rates):
        raise InvalidInput(
            f"the Chernoff lemma needs rates in (0, 1], got {list(rates)}: of an outcome that "
            f"never happens no relative error can be promised."
        )
