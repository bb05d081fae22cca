"""What the paper promises at its optimum, beside what attacks pick there."""

from __future__ import annotations

from dataclasses import dataclass

from trilemma.estimation.leakage import Estimate
from trilemma.tuning.results.documents import Shares

__all__ = ["Promise", "SurrogateConstants"]


@dataclass(frozen=True)
class SurrogateConstants:
    """C₁ and C₂ as estimated; `smoothed` where the plain estimate of C₂ is not finite, and why."""

    c1: Estimate
    c2: float
    smoothed: bool
    reason: str


@dataclass(frozen=True)
class Promise:
    """γ* of one mechanism in one form: what the paper promises, and what attacks recover there.

    `parameter` is γ*, `distance` how far it lies from no protection. `measured` is None where γ*
    cannot be run, and `note` says why.
    """

    mechanism: str
    form: str
    symbol: str
    parameter: float | None
    distance: float | None
    protection: str | None
    promised: float
    measured: Shares | None
    units: int
    successes: int
    objective: float | None
    note: str
