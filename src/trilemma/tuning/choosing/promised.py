"""The paper's own choice: the γ* of least objective by its bounds, and what it leaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trilemma.protections.specs import parse_protection
from trilemma.tuning.families.pricing import Pricing, priced
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.surrogate.promises import promises, surrogate_constants

if TYPE_CHECKING:
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.promises import Promise, SurrogateConstants
    from trilemma.work.replay import Ask, Procedure

__all__ = ["paper_procedure", "promised_candidate", "promised_procedures"]


def paper_procedure(plan: Plan) -> dict[str, Procedure]:
    """The paper's promises, and what the leading attack makes of them."""
    return {"promises": lambda ask: _promises(plan, ask, (plan.suite.lead,))}


def promised_procedures(plan: Plan) -> dict[str, Procedure]:
    """The paper's promises, and the candidate that follows from them."""
    return {
        "promises": lambda ask: _promises(plan, ask),
        "surrogate": lambda ask: promised_candidate(_promises(plan, ask)[1], ask, plan.pricing),
    }


def _promises(
    plan: Plan, ask: Ask, attacks: tuple[str, ...] | None = None
) -> tuple[SurrogateConstants, tuple[Promise, ...]]:
    """The paper's closed forms, from what is picked in single unprotected rounds."""
    gauge, pricing, kappa = plan.gauge(ask), plan.pricing, plan.claim.kappa
    found = surrogate_constants(gauge.control(), kappa, pricing.confidence)
    return found, promises(gauge, found, pricing, kappa, attacks)


def promised_candidate(promises: Sequence[Promise], ask: Ask, pricing: Pricing) -> Candidate:
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
    return priced(candidate, ask, protection, pricing)
