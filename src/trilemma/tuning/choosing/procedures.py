"""What a tuning measures before anything is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.tuning.certificate.candidates import certified_procedures
from trilemma.tuning.choosing.candidates import measured_candidate, promised_candidate
from trilemma.tuning.surrogate.promises import promises
from trilemma.tuning.surrogate.promises import surrogate_constants as constants_of

if TYPE_CHECKING:
    from trilemma.tuning.families.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.promises import Promise, SurrogateConstants
    from trilemma.work.replay import Ask, Procedure

__all__ = ["procedures"]


def procedures(plan: Plan) -> dict[str, Procedure]:
    """All that can be measured before anything is chosen, by name."""
    wanted: dict[str, Procedure] = {"control": lambda ask: plan.gauge(ask).control()}
    if plan.request.basis == "surrogate":
        wanted["promises"] = lambda ask: _promises(plan, ask)
        wanted["surrogate"] = lambda ask: promised_candidate(
            _promises(plan, ask)[1], ask, plan.pricing
        )
        return wanted
    if plan.request.knows == "anyone":
        return wanted | certified_procedures(plan)
    return wanted | {family.name: _measured(plan, family) for family in plan.families}


def _measured(plan: Plan, family: Family) -> Procedure:
    return lambda ask: measured_candidate(plan.gauge(ask), family, plan.pricing, plan.claim.kappa)


def _promises(plan: Plan, ask: Ask) -> tuple[SurrogateConstants, tuple[Promise, ...]]:
    """The paper's closed forms, from what is picked in single unprotected rounds."""
    gauge, asked = plan.gauge(ask), plan.request
    found = constants_of(gauge.control(), plan.claim.kappa, asked.confidence)
    profile = plan.pricing.profile
    return found, promises(
        gauge, found, asked.problem, profile, asked.confidence, plan.claim.kappa
    )
