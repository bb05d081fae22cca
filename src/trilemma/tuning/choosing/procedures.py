"""What a tuning measures: all that a choice needs, and what stands beside the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from trilemma.beliefs.intervals import Interval
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import client_leakage
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.certify import best_clip, certify, clip_norms
from trilemma.tuning.choosing.candidates import (
    certified_candidate,
    measured_candidate,
    promised_candidate,
)
from trilemma.tuning.results.verdict import Beside, Candidate
from trilemma.tuning.surrogate.promises import (
    Promise,
    SurrogateConstants,
    promises,
    surrogate_constants,
)
from trilemma.work.replay import Ask

if TYPE_CHECKING:
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.plan import Plan

__all__ = ["BasisAsked", "Procedure", "procedures", "procedures_beside"]

BasisAsked = Literal["measured", "certified", "surrogate", "all"]
Procedure = Callable[[Ask], Any]
_BESIDE_UNITS: Final = 16
_CLIP_SEEDS: Final = 2  # trainings for each clip norm that is tried


def procedures(plan: Plan, basis: BasisAsked) -> dict[str, Procedure]:
    """All that can be measured before anything is chosen, by name."""
    wanted: dict[str, Procedure] = {"control": lambda ask: plan.gauge(ask).control()}
    if basis in ("measured", "all"):
        wanted |= {family.name: _measured(plan, family) for family in plan.families}
    if basis in ("measured", "surrogate", "all"):
        wanted["promises"] = lambda ask: _promises(plan, ask)
    if basis == "surrogate":
        wanted["surrogate"] = lambda ask: promised_candidate(
            _promises(plan, ask)[1], ask, plan.pricing
        )
    if basis in ("certified", "all"):
        carriers = ("plain", "secret-sharing")[: 1 + (plan.setting.clients > 1)]
        wanted |= {f"certified {each}": _certified(plan, each) for each in carriers}
    return wanted


def _measured(plan: Plan, family: Family) -> Procedure:
    priced = any(each.name == "secret-sharing" for each in plan.families)
    return lambda ask: measured_candidate(
        plan.gauge(ask), family, plan.pricing, sum_is_priced=priced
    )


def _promises(plan: Plan, ask: Ask) -> tuple[SurrogateConstants, tuple[Promise, ...]]:
    gauge = plan.gauge(ask, Adversary.SERVER)  # the paper's adversary
    found = surrogate_constants(gauge.control(), plan.guess.kappa, plan.confidence)
    profile = plan.pricing.profile
    return found, promises(gauge, found, plan.problem, profile, plan.confidence)


def _certified(plan: Plan, transport: str) -> Procedure:
    (kappa, confidence), effort = _kappa(plan), plan.effort
    norms = clip_norms(plan.setting) if effort.clip == "utility" else (effort.clip,)
    certificates = [
        certify(
            plan.setting,
            plan.problem.budget,
            kappa,
            records=plan.setting.total_weight,
            kappa_confidence=confidence,
            rounds=effort.certified_rounds,
            clip=norm,
            adversary=plan.adversary,
            transport=transport,
            population=effort.population,
        )
        for norm in norms
    ]
    name = "certified" if transport == "plain" else f"certified+{transport}"

    def certified(ask: Ask) -> Candidate:
        chosen = certificates[0]
        if len(certificates) > 1:
            others = tuple(range(effort.seeds, effort.seeds + _CLIP_SEEDS))
            chosen = best_clip(certificates, ask, rounds=effort.rounds, seeds=others)
        return certified_candidate(chosen, name, ask, plan.pricing)

    return certified


def _kappa(plan: Plan) -> tuple[Interval, float | None]:
    """Up to an upper limit, and its confidence; below it the leakage is bounded for all κ."""
    measured = plan.guess.kappa
    if plan.effort.kappa is not None:
        return Interval(0.0, plan.effort.kappa), None
    if measured is None:
        raise InvalidInput(
            "a certificate needs the success rate of a blind guess, which is measured for PSNR "
            "only; state it with kappa."
        )
    records = plan.scenario.local_training.unit_size
    return Interval(0.0, measured.high_in_batch(records)), measured.confidence


def procedures_beside(plan: Plan, chosen: Candidate | None) -> dict[str, Procedure]:
    """The other adversary at what was chosen."""
    if chosen is None:
        return {}
    protection = parse_protection(chosen.protection or "none")
    wanted: dict[str, Procedure] = {}
    if plan.setting.clients > 1:
        server = plan.adversary is Adversary.SERVER
        other = Adversary.CLIENT if server else Adversary.SERVER
        who = "a curious client" if server else "the server"
        wanted["other"] = _beside(plan, protection, other, who)
    return wanted


def _beside(plan: Plan, protection: Protection, adversary: Adversary, who: str) -> Procedure:
    def measure(ask: Ask) -> Beside:
        reads = protection.transport.server_reads
        if adversary is Adversary.SERVER and reads == "nothing":
            return Beside(who, "the server reads nothing; this rests on the key.")
        counts = plan.gauge(ask).count("beside", protection, _BESIDE_UNITS, adversary=adversary)
        return Beside(
            who,
            f"{counts.successes} of {counts.units} units recovered (measured, not tuned for)",
            client_leakage(counts.successes, counts.units, confidence=plan.confidence),
            counts.units,
            counts.successes,
        )

    return measure
