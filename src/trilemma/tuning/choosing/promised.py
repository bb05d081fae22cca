"""The paper's own choice: the γ* of least objective by its bounds, and what it leaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trilemma.protections.specs import parse_protection
from trilemma.tuning.families.pricing import Pricing, priced
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.surrogate.promises import promises, surrogate_constants

if TYPE_CHECKING:
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.promises import Promise, SurrogateConstants
    from trilemma.work.scheduler import Procedure

    Promised = tuple[SurrogateConstants, tuple[Promise, ...]]

__all__ = ["paper_procedure", "promised_candidate", "promised_procedures"]


def paper_procedure(plan: Plan) -> dict[str, Procedure[Promised]]:
    """The paper's promises, and what the leading attack makes of them."""
    return {"promises": _promises(plan, (plan.suite.lead,))}


def promised_procedures(plan: Plan) -> dict[str, Procedure[Any]]:
    """The paper's promises, and the candidate that follows from them."""
    return {"promises": _promises(plan), "surrogate": _surrogate(plan)}


def _surrogate(plan: Plan) -> Procedure[Candidate]:
    _, promises = yield from _promises(plan)
    return (yield from promised_candidate(promises, plan.pricing))


def _promises(plan: Plan, attacks: tuple[str, ...] | None = None) -> Procedure[Promised]:
    """The paper's closed forms, from what is picked in single unprotected rounds."""
    gauge, pricing, kappa = plan.gauge(), plan.pricing, plan.claim.kappa
    control = yield from gauge.control()
    constants = surrogate_constants(control, kappa, pricing.confidence)
    found = yield from promises(gauge, constants, pricing, kappa, attacks)
    return constants, found


def promised_candidate(promises: Sequence[Promise], pricing: Pricing) -> Procedure[Candidate]:
    """The paper's choice: the γ* of least objective by its own bounds, and what it leaks.

    Feasible unless the attacks contradict it; bounded masks are left out, as no federation
    should run them.
    """
    able = [
        each
        for each in promises
        if each.protection
        and each.measured is not None
        and each.objective is not None
        and each.mechanism != "secret-sharing"
        and (each.form != "printed" or each.mechanism == "compression")
    ]
    if not able:
        return Candidate(
            name="surrogate",
            basis="surrogate",
            feasible=False,
            deployable=True,
            statement="No optimum of the paper's closed forms can be run for this budget.",
        )
    best = min(able, key=lambda each: each.objective or 0.0)
    protection = parse_protection(best.protection or "none")
    candidate = Candidate(
        name=f"surrogate {best.mechanism}",
        basis="surrogate",
        feasible=best.measured is not None and best.measured.low <= best.promised,
        deployable=True,
        statement=(
            f"The paper's closed form, no guarantee: it promises a leakage of "
            f"{best.promised:.3g}, and the right record was picked in {best.successes} of "
            f"{best.units} games."
        ),
        protection=best.protection,
        symbol=best.symbol,
        strength=best.parameter,
        leakage=best.measured,
        units=best.units,
    )
    return (yield from priced(candidate, protection, pricing))
