"""What a tuning measures: all that a choice needs, and what stands beside the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from trilemma.estimation.leakage import client_leakage
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.beside import measured_beside
from trilemma.tuning.certificate.candidates import certified_procedures
from trilemma.tuning.choosing.candidates import measured_candidate, promised_candidate
from trilemma.tuning.results.verdict import Beside
from trilemma.tuning.surrogate.promises import Promise, SurrogateConstants, promises
from trilemma.tuning.surrogate.promises import surrogate_constants as constants_of
from trilemma.work.replay import Ask

if TYPE_CHECKING:
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate

__all__ = ["Procedure", "procedures", "procedures_beside"]

Procedure = Callable[[Ask], Any]
_BESIDE_UNITS: Final = 16


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


def procedures_beside(plan: Plan, chosen: Candidate | None) -> dict[str, Procedure]:
    """What the other adversary picks at what was chosen; beside a proof, who knows the most."""
    if chosen is not None and chosen.certificate is not None:
        return {**measured_beside(plan, chosen)}
    if chosen is None or plan.setting.clients < 2:
        return {}
    protection = parse_protection(chosen.protection or "none")
    server = plan.request.adversary is Adversary.SERVER
    other = Adversary.CLIENT if server else Adversary.SERVER
    who = "a curious client" if server else "the server"

    def measure(ask: Ask) -> Beside:
        reads = protection.transport.server_reads
        if other is Adversary.SERVER and reads == "nothing":
            return Beside(who, "the server reads nothing; this rests on the key.")
        counts = plan.gauge(ask).count(
            "beside", protection, _BESIDE_UNITS, attacks=(plan.suite.lead,), adversary=other
        )
        kappa, sure = plan.claim.kappa, plan.request.confidence
        return Beside(
            who,
            f"{plan.suite.lead} picks the right record in {counts.successes} of {counts.units} "
            f"games (measured, not tuned for)",
            client_leakage(counts.successes, counts.units, confidence=sure, kappa=kappa),
            counts.units,
            counts.successes,
        )

    return {"other": measure}
