"""Basis "surrogate": the paper's γ*, solved from estimated C₁ and C₂, and then attacked.

The paper promises a leakage of `budget` at γ*; what the attacks recover there stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.bounds.surrogate import Constants, log_c2
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import client_leakage
from trilemma.protections.laws import LAWS
from trilemma.protections.laws.base import Form
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.tuning.results.promises import Promise, SurrogateConstants
from trilemma.tuning.surrogate.solving import Solution, finite_or_none, solve
from trilemma.work.scheduler import together

if TYPE_CHECKING:
    from trilemma.tuning.families.counts import Counts
    from trilemma.tuning.families.gauge import Gauge
    from trilemma.tuning.families.pricing import Pricing
    from trilemma.work.scheduler import Procedure

__all__ = ["possible_games", "promises", "surrogate_constants"]

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
    pricing: Pricing,
    kappa: float,
    attacks: tuple[str, ...] | None = None,
) -> Procedure[tuple[Promise, ...]]:
    """γ* of every mechanism, printed and corrected, attacked as the server would.

    By these attacks, or by all of the rung.
    """
    if found.c1.value <= 0 or found.c2 <= 0:
        return ()
    constants = Constants(min(1.0, found.c1.value), found.c2)
    solutions = [
        solve(law, constants, pricing.problem, [pricing.profile], form=form)
        for law in LAWS.values()
        for form in _FORMS.get(law.name, ("printed", "corrected"))
    ]
    attacked = [_promise(gauge, solution, pricing, kappa, attacks) for solution in solutions]
    return tuple((yield from together(attacked)))


def possible_games() -> int:
    """Games that each attack plays at most, against all of them."""
    return _UNITS * sum(len(_FORMS.get(name, ("", ""))) for name in LAWS)


def _promise(
    gauge: Gauge,
    solution: Solution,
    pricing: Pricing,
    kappa: float,
    attacks: tuple[str, ...] | None,
) -> Procedure[Promise]:
    value = solution.value
    protection, note = _runnable(solution)
    made = Promise(
        mechanism=solution.mechanism,
        form=solution.form,
        symbol=solution.parameter.symbol,
        parameter=finite_or_none(value.value if value else None),
        distance=finite_or_none(value.distance if value else None),
        protection=None,
        promised=pricing.problem.budget,
        measured=None,
        units=0,
        successes=0,
        objective=finite_or_none(solution.objective),
        note=note,
    )
    if protection is None:
        return made
    stream = f"surrogate {solution.mechanism} {solution.form}"
    counts = yield from gauge.count(stream, protection, _UNITS, attacks=attacks, rounds=1)
    won, games = counts.successes, counts.units
    return replace(
        made,
        protection=protection.describe(),
        measured=client_leakage(won, games, confidence=pricing.confidence, kappa=kappa),
        units=games,
        successes=won,
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
