"""Basis "surrogate": the paper's γ*, solved from estimated C₁ and C₂, and then attacked.

The paper promises a leakage of `budget` at γ*; what the attacks recover there stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.bounds import Constants
from trilemma.errors import InvalidInput
from trilemma.estimation.constants import LogRatio, largest_log_ratio
from trilemma.estimation.leakage import Estimate, client_leakage, mean_leakage
from trilemma.protections.laws import LAWS
from trilemma.protections.laws.base import Form, Law
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.tuning.surrogate.solving import Solution, solve

if TYPE_CHECKING:
    from trilemma.beliefs.blind import BlindGuess
    from trilemma.tuning.calibrating.gauge import Counts, Gauge
    from trilemma.tuning.problem import Problem
    from trilemma.updates import Profile

__all__ = ["Promise", "SurrogateConstants", "promises", "surrogate_constants"]

_UNITS: Final = 12  # attacked at each γ*: enough to tell all from none
_FORMS: Final[Mapping[str, tuple[Form, ...]]] = {
    # ρ* is printed as it should be; the correction of s²* is the exact distortion
    "compression": ("printed",),
    "randomization": ("printed", "tight"),
}


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
    measured: Estimate | None
    units: int
    successes: int
    objective: float | None
    note: str


def surrogate_constants(
    control: Counts, kappa: BlindGuess | None, confidence: float
) -> SurrogateConstants:
    """C₁, C₂ of the unprotected control; C₂ is smoothed where it is not finite (E6)."""
    hits = [hit for _, hit in control.by_client.values()]
    trials = min(units for units, _ in control.by_client.values())
    ratio: LogRatio = largest_log_ratio(hits, trials, kappa)
    smoothed = ratio.c2 is None
    return SurrogateConstants(
        mean_leakage(hits, trials, confidence=confidence),
        ratio.c2_smoothed if ratio.c2 is None else ratio.c2,
        smoothed,
        ratio.reason or "",
    )


def promises(
    gauge: Gauge,
    found: SurrogateConstants,
    problem: Problem,
    profile: Profile,
    confidence: float,
) -> tuple[Promise, ...]:
    """γ* of every mechanism, printed and corrected, attacked as the server would."""
    if found.c1.value <= 0 or found.c2 <= 0:
        return ()
    constants = Constants(min(1.0, found.c1.value), found.c2)
    return tuple(
        _promise(gauge, law, form, constants, problem, profile, confidence)
        for law in LAWS.values()
        for form in _FORMS.get(law.name, ("printed", "corrected"))
    )


def _promise(
    gauge: Gauge,
    law: Law,
    form: Form,
    constants: Constants,
    problem: Problem,
    profile: Profile,
    confidence: float,
) -> Promise:
    solution = solve(law, constants, problem, [profile], form=form)
    protection, note = _runnable(solution)
    measured, counts = None, None
    if protection is not None:
        counts = gauge.count(f"surrogate {law.name} {form}", protection, _UNITS)
        measured = client_leakage(counts.successes, counts.units, confidence=confidence)
    return Promise(
        mechanism=law.name,
        form=form,
        symbol=solution.parameter.symbol,
        parameter=_finite(solution.value.value if solution.value else None),
        distance=_finite(solution.value.distance if solution.value else None),
        protection=None if protection is None else protection.describe(),
        promised=problem.budget,
        measured=measured,
        units=0 if counts is None else counts.units,
        successes=0 if counts is None else counts.successes,
        objective=_finite(solution.objective),
        note=note,
    )


def _runnable(solution: Solution) -> tuple[Protection | None, str]:
    """γ* as a protection that can be attacked, or why there is none."""
    value = solution.value
    if value is None:
        return None, solution.reason
    try:
        if solution.mechanism == "randomization":
            return Protection((Randomization(value.value),)), ""
        if solution.mechanism == "compression":
            return Protection((Compression.dropping(value.strength or 0.0),)), ""
        if solution.mechanism == "secret-sharing":
            return Protection((BoundedMask(value.value),)), ""
    except InvalidInput:
        return None, "γ* is no protection at all."
    return None, f"No key has a modulus of {value.value:.3g}: γ* encrypts nothing."


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
