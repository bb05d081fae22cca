"""Basis "surrogate": the paper's γ*, solved from estimated C₁ and C₂, and then attacked.

The paper promises a leakage of `budget` at γ*; what the attacks recover there stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from trilemma.bounds.surrogate import Constants, log_c2
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import client_leakage
from trilemma.protections.laws import LAWS
from trilemma.protections.laws.base import Form, Law
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.tuning.results.promises import Promise, SurrogateConstants
from trilemma.tuning.surrogate.solving import Solution, solve

if TYPE_CHECKING:
    from trilemma.tuning.families.counts import Counts
    from trilemma.tuning.families.gauge import Gauge
    from trilemma.tuning.problem import Problem
    from trilemma.updates import Profile

__all__ = ["promises", "surrogate_constants"]

_UNITS: Final = 12  # attacked at each γ*: enough to tell all from none
_FORMS: Final[Mapping[str, tuple[Form, ...]]] = {
    # ρ* is printed as it should be; the correction of s²* is the exact distortion
    "compression": ("printed",),
    "randomization": ("printed", "tight"),
}


def surrogate_constants(control: Counts, kappa: float, confidence: float) -> SurrogateConstants:
    """C₁, C₂ of the unprotected control, whose blind rate κ is exact; C₂ is smoothed where needed.

    ξ = max |log(f̂/prior)| over "picked" and "not picked"; it is infinite where a rate is 0 or 1,
    and half a success and half a failure are then added to the counts (E6).
    """
    hits, trials = control.successes, control.units
    smoothed = hits in (0, trials)
    rate = (hits + 0.5) / (trials + 1) if smoothed else hits / trials
    xi = max(abs(math.log(rate / kappa)), abs(math.log((1 - rate) / (1 - kappa))))
    reason = f"the right record was picked in {hits} of {trials} games" if smoothed else ""
    return SurrogateConstants(
        client_leakage(hits, trials, confidence=confidence, kappa=kappa),
        math.exp(min(log_c2(xi), 700.0)) if xi > 0 else 0.0,
        smoothed,
        reason,
    )


def promises(
    gauge: Gauge,
    found: SurrogateConstants,
    problem: Problem,
    profile: Profile,
    confidence: float,
    kappa: float,
) -> tuple[Promise, ...]:
    """γ* of every mechanism, printed and corrected, attacked as the server would."""
    if found.c1.value <= 0 or found.c2 <= 0:
        return ()
    constants = Constants(min(1.0, found.c1.value), found.c2)
    return tuple(
        _promise(gauge, law, form, constants, problem, profile, confidence, kappa)
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
    kappa: float,
) -> Promise:
    solution = solve(law, constants, problem, [profile], form=form)
    protection, note = _runnable(solution)
    measured, counts = None, None
    if protection is not None:
        counts = gauge.count(f"surrogate {law.name} {form}", protection, _UNITS, rounds=1)
        measured = client_leakage(
            counts.successes, counts.units, confidence=confidence, kappa=kappa
        )
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
