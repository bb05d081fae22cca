"""Algorithm 1 of the paper: γ* from 2C₁ - C₂·mean TV(γ*) = ε, and what γ* is worth.

The result is the paper's *surrogate* optimum. It is no guarantee (departure E3), and
`Solution.guarantee` says so in a sentence wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trilemma.paper_framework.mechanisms.base import (
    Form,
    MechanismModel,
    ParameterValue,
    Strength,
    mean_distortion,
    strength_for,
)
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.surrogate_bounds import Constants, Regime
from trilemma.protection.parameter import Parameter
from trilemma.tuning.problem import Problem

__all__ = ["Gamma", "Optimum", "Solution", "solve"]


@dataclass(frozen=True)
class Solution:
    """γ* of one mechanism with all that the paper says of it; None where there is no γ*.

    `distortion` is the mean TV of the paper's model, `true_distortion` that of the mechanism as it
    runs. `proved_in_the_model` says that C₁ + C₂·TV ≤ ε with the former (or an upper bound of
    it), `proved` with the latter.
    """

    mechanism: str
    parameter: Parameter
    form: Form
    regime: Regime
    feasible: bool
    reason: str
    guarantee: str
    value: ParameterValue | None = None
    distortion: float | None = None
    true_distortion: float | None = None
    surrogate_leakage: float | None = None
    proved_in_the_model: bool = False
    proved: bool = False
    utility_bound: float | None = None
    efficiency_bound: float | None = None
    objective: float | None = None

    @property
    def optimum(self) -> Optimum:
        """The same as values that JSON can hold."""
        value = self.value or ParameterValue(math.nan, math.nan, math.nan)
        return Optimum(
            mechanism=self.mechanism,
            parameter=Gamma(
                symbol=self.parameter.symbol,
                meaning=self.parameter.meaning,
                value=_finite_or_none(value.value),
                log_value=_finite_or_none(value.log_value),
                distance=_finite_or_none(value.distance),
                strength=_finite_or_none(value.strength),
            ),
            form=self.form,
            feasible=self.feasible,
            reason=self.reason,
            guarantee=self.guarantee,
            distortion=self.distortion,
            true_distortion=self.true_distortion,
            surrogate_leakage=self.surrogate_leakage,
            regime=self.regime.value,
            proved_in_the_model=self.proved_in_the_model,
            proved=self.proved,
            utility_bound=self.utility_bound,
            efficiency_bound=self.efficiency_bound,
            objective=self.objective,
        )


@dataclass(frozen=True)
class Gamma:
    """γ* in a file: its value, ln of it, and its distance from neutral, which stays exact.

    `strength` is 1 - ρ for compression. None: there is no γ*, or it is beyond all floats.
    """

    symbol: str
    meaning: str
    value: float | None
    log_value: float | None
    distance: float | None
    strength: float | None


@dataclass(frozen=True)
class Optimum:
    """A `Solution` in a file."""

    mechanism: str
    parameter: Gamma
    form: str
    feasible: bool
    reason: str
    guarantee: str
    distortion: float | None
    true_distortion: float | None
    surrogate_leakage: float | None
    regime: str
    proved_in_the_model: bool
    proved: bool
    utility_bound: float | None
    efficiency_bound: float | None
    objective: float | None


def solve(
    model: MechanismModel,
    constants: Constants,
    problem: Problem,
    profiles: Sequence[Profile],
    *,
    form: Form = "corrected",
    c4: float = 1.0,
    c5: float = 1.0,
) -> Solution:
    """Algorithm 1 for one mechanism, with known C₁ and C₂; `profiles` has one entry a client.

    >>> from trilemma.paper_framework.mechanisms import mechanism
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
    bounded = [(strength, profile) for profile in profiles]
    count = len(profiles)
    utility = [model.utility_bound(*at, c4, form, count) for at in bounded]
    cost = [model.efficiency_bound(*at, c5, form, count) for at in bounded]
    tv_limit = true = 0.0
    if needed > 0:  # else nothing is sent differently, whatever the clients' boxes are
        tv_limit = _mean([_tv_limit(model, *at) for at in bounded])
        true = _mean([model.true_distortion(*at) for at in bounded])
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
        guarantee=_guarantee(constants, problem.budget, tv_limit, true),
        value=model.value(strength),
        distortion=distortion,
        true_distortion=true,
        surrogate_leakage=constants.surrogate_leakage(distortion),
        proved_in_the_model=constants.proves(problem.budget, tv_limit),
        proved=constants.proves(problem.budget, true),
        utility_bound=_mean(utility),
        efficiency_bound=_mean(cost),
        objective=problem.objective(utility, cost),
    )


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _tv_limit(model: MechanismModel, strength: Strength, profile: Profile) -> float:
    """An upper bound of one client's TV in the paper's model at a common γ, for a proof.

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


def _guarantee(constants: Constants, budget: float, tv_limit: float, true: float) -> str:
    """What γ* does and does not guarantee (E3), given its TV, as modelled and true (E20)."""
    c1 = constants.c1
    if budget >= 2 * c1:
        return f"Nothing is needed: unprotected updates leak C1 = {c1:.4g}, within the budget."
    if budget >= 1.5 * c1:
        tolerance = 1 + 1e-12  # at budget = 1.5*C1 the two are equal
        for tv, what in ((tv_limit, "distortion of the model"), (true, "true distortion")):
            proved_up_to = c1 + constants.c2 * tv
            if proved_up_to > budget * tolerance:
                return (
                    f"Unproved: the {what} may be {tv:.4g}, at which all that holds is a leakage "
                    f"of at most {min(1.0, proved_up_to):.4g}; unprotected updates already leak "
                    f"C1 = {c1:.4g}, within the budget."
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
