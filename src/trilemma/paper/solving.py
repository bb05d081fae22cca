"""The paper's meta-algorithm: γ* from 2C₁ - C₂·mean TV(γ*) = ε, and what γ* is worth.

The result is the paper's *surrogate* optimum. It is no guarantee (departure E3), and
`Solution.guarantee` says so in a sentence wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trilemma.paper.bounds import Constants, Regime
from trilemma.paper.mechanisms.base import (
    Form,
    MechanismModel,
    ParameterValue,
    Strength,
    mean_distortion,
    strength_for,
)
from trilemma.paper.profile import Profile
from trilemma.protections.parameter import Parameter
from trilemma.tuning.problem import Problem

__all__ = ["Solution", "finite_or_none", "solve"]


@dataclass(frozen=True)
class Solution:
    """γ* of one mechanism with all that the paper says of it; None where there is no γ*."""

    mechanism: str
    parameter: Parameter
    form: Form
    regime: Regime
    feasible: bool
    reason: str
    guarantee: str
    value: ParameterValue | None = None
    distortion: float | None = None
    surrogate_leakage: float | None = None
    proved: bool = False
    utility_bound: float | None = None
    efficiency_bound: float | None = None
    objective: float | None = None


def solve(
    model: MechanismModel,
    constants: Constants,
    problem: Problem,
    profiles: Sequence[Profile],
    *,
    form: Form = "corrected",
    c4: float = 1.0,
    c5: float = 1.0,
    clients: int | None = None,
) -> Solution:
    """Algorithm meta for one mechanism, with known C₁ and C₂.

    `profiles` has one entry a client, or a single one for `clients` that are all alike.

    >>> from trilemma.paper.mechanisms import mechanism
    >>> solution = solve(
    ...     mechanism("compression"), Constants(0.9, 100.0), Problem(0.3), [Profile(2410)]
    ... )
    >>> solution.value.strength  # the share of coordinates dropped: 0.015 of them in all
    6.27...e-06
    """
    form = model.form(form)
    needed = constants.required_distortion(problem.budget)
    limit = model.largest_distortion(form)
    if needed >= 1 or needed > limit:
        return _infeasible(model, form, _too_much(constants, needed, limit))
    strength = (
        Strength(-math.inf, min(model.anchor(profile) for profile in profiles))
        if needed <= 0
        else strength_for(model, needed, profiles, form)
    )
    distortion = mean_distortion(model, strength, profiles, form)
    doses = [model.dose_of(strength, profile) for profile in profiles]
    pairs = list(zip(doses, profiles, strict=True))
    utility = [model.utility_bound(dose, profile, c4) for dose, profile in pairs]
    count = len(profiles) if clients is None else clients
    cost = [model.efficiency_bound(strength, profile, c5, form, count) for profile in profiles]
    # Where nothing is needed nothing is sent differently, whatever the clients' boxes are.
    limits = [_tv_limit(model, strength, profile) if needed > 0 else 0.0 for profile in profiles]
    tv_limit = _mean(limits)
    # Both bounds rise with γ and γ* is the least γ allowed: a cap that γ* breaks stays so.
    names = ("utility bound", "efficiency bound")
    breach = problem.breach(_mean(utility), _mean(cost), names)
    return Solution(
        mechanism=model.name,
        parameter=model.parameter,
        form=form,
        regime=constants.regime(problem.budget),
        feasible=not breach,
        reason=breach,
        guarantee=_guarantee(constants, problem.budget, tv_limit),
        value=model.value(strength),
        distortion=distortion,
        surrogate_leakage=constants.surrogate_leakage(distortion),
        proved=constants.proves(problem.budget, tv_limit),
        utility_bound=_mean(utility),
        efficiency_bound=_mean(cost),
        objective=problem.objective(utility, cost),
    )


def finite_or_none(value: float | None) -> float | None:
    """The value where JSON can hold it."""
    return value if value is not None and math.isfinite(value) else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _tv_limit(model: MechanismModel, strength: Strength, profile: Profile) -> float:
    """An upper bound of one client's true TV at a common γ, for a proof.

    Where γ lies short of the client's neutral value (a mask narrower than its box) the model says
    nothing, although the update is distorted: 1 is then the only bound at hand.
    """
    if strength.anchor + strength.dose < model.anchor(profile):
        return 1.0
    return model.distortion_limit(model.dose_of(strength, profile), profile)


def _infeasible(model: MechanismModel, form: Form, reason: str) -> Solution:
    return Solution(
        mechanism=model.name,
        parameter=model.parameter,
        form=form,
        regime=Regime.INFEASIBLE,
        feasible=False,
        reason=reason,
        guarantee="No value of this mechanism meets the budget even by the paper's own metric.",
    )


def _too_much(constants: Constants, needed: float, limit: float) -> str:
    allows = f"at most {limit:g}" if limit < 1 else "less than 1"
    sentence = f"the budget needs a distortion of {needed:.6g}, but this form allows {allows}; "
    edge = 2 * constants.c1 - limit * constants.c2
    nearest = _round_up(constants, edge, limit)
    if nearest is None:
        return sentence + "no budget below 1 is feasible with this C1 and C2."
    return sentence + f"the nearest feasible budget is {nearest}."


def _round_up(constants: Constants, edge: float, limit: float) -> str | None:
    """The feasible budget next to the edge of feasibility, with as few digits as that takes."""
    for digits in (4, 6, 9, 12, 16):
        budget = math.ceil(edge * 10**digits) / 10**digits
        if not 0 < budget < 1:
            continue
        needed = constants.required_distortion(budget)
        if needed < 1 and needed <= limit:
            return f"{budget:.{digits}f}".rstrip("0")
    return None


def _guarantee(constants: Constants, budget: float, tv_limit: float) -> str:
    """What γ* does and does not guarantee (E3), given an upper bound of its true TV (E20)."""
    c1 = constants.c1
    if budget >= 2 * c1:
        return f"Nothing is needed: unprotected updates leak C1 = {c1:.4g}, within the budget."
    if budget >= 1.5 * c1:
        proved_up_to = c1 + constants.c2 * tv_limit
        if proved_up_to > budget * (1 + 1e-12):  # at budget = 1.5*C1 the two are equal
            return (
                f"Unproved: the true distortion may be {tv_limit:.4g}, at which all that holds "
                f"is a leakage of at most {min(1.0, proved_up_to):.4g}; "
                f"unprotected updates already leak C1 = {c1:.4g}, within the budget."
            )
        return (
            f"The paper's bound holds here, but unprotected updates already leak only "
            f"C1 = {c1:.4g}, less than the budget: nothing is gained by it."
        )
    if budget >= c1:
        return (
            f"Unproved: the paper's proof covers budgets from 1.5*C1 = {1.5 * c1:.4g} only; "
            f"unprotected updates already leak C1 = {c1:.4g}, within the budget."
        )
    worst = min(1.0, 5 * c1 - 3 * budget)
    return (
        f"No guarantee: the budget lies below C1 = {c1:.4g}, where the paper's own other regime "
        f"allows a leakage of {worst:.4g} at this value; attack it before you rely on it."
    )
