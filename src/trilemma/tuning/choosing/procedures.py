"""What a tuning measures before anything is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.tuning.certificate.candidates import certified_procedures
from trilemma.tuning.choosing.candidates import measured_candidate
from trilemma.tuning.choosing.promised import paper_procedure, promised_procedures

if TYPE_CHECKING:
    from trilemma.tuning.families.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Procedure

__all__ = ["procedures"]


def procedures(plan: Plan) -> dict[str, Procedure]:
    """All that can be measured before anything is chosen, by name."""
    wanted: dict[str, Procedure] = {"control": lambda ask: plan.gauge(ask).control()}
    if plan.request.basis == "surrogate":
        return wanted | promised_procedures(plan)
    if plan.request.paper:
        wanted |= paper_procedure(plan)
    if plan.request.knows == "anyone":
        return wanted | certified_procedures(plan)
    return wanted | {family.name: _measured(plan, family) for family in plan.families}


def _measured(plan: Plan, family: Family) -> Procedure:
    return lambda ask: measured_candidate(plan.gauge(ask), family, plan.pricing, plan.claim.kappa)
