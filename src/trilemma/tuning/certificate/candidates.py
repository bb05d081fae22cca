"""Certified candidates: proved for anyone, and priced by trainings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.bounds.certificate import epsilon, true_positive_rate
from trilemma.estimation.leakage import Estimate
from trilemma.estimation.recipes import judged_records
from trilemma.observations import Adversary
from trilemma.tuning.certificate.certificate import Certificate
from trilemma.tuning.certificate.conditions import check_scenario
from trilemma.tuning.certificate.proof import Proof
from trilemma.tuning.certificate.searching import best_clip, best_unprotected
from trilemma.tuning.choosing.candidates import priced
from trilemma.tuning.results.candidates import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.estimation.recipes import Recipe
    from trilemma.tuning.certificate.searching import Chosen
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Ask

    Procedure = Callable[[Ask], Candidate]

__all__ = ["certified_procedures"]

_SHOWN: Final = (2, 10, 100, 1000)  # line-ups, besides those claimed and measured
_DELTA: Final = 1e-5
_HELPED: Final = (
    "One client that helps the server holds the key and opens every single update, so that noise "
    "shared by the clients hides nobody; use secret sharing, or randomization alone."
)


def certified_procedures(plan: Plan) -> dict[str, Procedure]:
    """A certified candidate for each family of the plan, by its name."""
    return {family.name: _procedure(plan, family) for family in plan.families}


def _procedure(plan: Plan, family: Family) -> Procedure:
    helped = plan.request.helpers > 0 and plan.request.adversary is Adversary.SERVER
    if family.carrier == "paillier" and helped:
        opened = Candidate(family.name, "certified", False, True, _HELPED)
        return lambda _: opened
    proof = Proof.of(plan, family.carrier)
    check_scenario(plan.scenario, by_record=proof.local_training.by_record)
    return lambda ask: _certified(ask, plan, family, proof)


def _certified(ask: Ask, plan: Plan, family: Family, proof: Proof) -> Candidate:
    rounds = plan.pricing.rounds
    chosen = best_clip(ask, proof, plan.scenario, rounds)
    unprotected = best_unprotected(ask, plan.scenario, rounds)
    certificate = _certificate(plan, proof, chosen, unprotected)
    protection = proof.protection(chosen.clip)
    candidate = Candidate(
        name=family.name,
        basis="certified",
        feasible=certificate.leakage <= plan.request.budget,
        deployable=True,
        statement=_statement(certificate, same_set=plan.scenario.public is None),
        rounds=certificate.rounds,
        protection=protection.describe(),
        symbol=family.symbol,
        parameter=certificate.variance,
        leakage=Estimate(certificate.leakage, 0.0, certificate.leakage),
        certificate=certificate,
        deployment=proof.deployment(chosen.clip, rounds),
    )
    own = replace(unprotected, judge="reporting")
    within = proof.recipe(chosen.clip, chosen.server_lr, "reporting")
    return priced(candidate, ask, protection, plan.pricing, recipe=within, without=own)


def _certificate(plan: Plan, proof: Proof, chosen: Chosen, unprotected: Recipe) -> Certificate:
    sizes = sorted({*_SHOWN, plan.claim.candidates, *filter(None, [plan.request.line_up])})
    leakage, worst = proof.leakage()
    return Certificate(
        level=proof.level,
        noise_multiplier=proof.training.noise_multiplier,
        variance=proof.variance(chosen.clip),
        record_clip=chosen.clip,
        server_lr=chosen.server_lr,
        rounds=proof.training.rounds,
        sampling_rate=proof.training.q,
        participation=proof.participation,
        survivors=proof.survivors,
        helpers=proof.helpers,
        person=proof.person,
        success={size: proof.success(size) for size in sizes},
        leakage=leakage,
        worst_line_up=worst,
        epsilon=epsilon(proof.training, _DELTA),
        delta=_DELTA,
        true_positive_rate=true_positive_rate(proof.training),
        clips_updates=proof.clips_updates,
        known={size: proof.success(size, "known") for size in sizes},
        line_up=proof.line_up,
        remainder=proof.remainder,
        server_decay=True,
        unprotected_lr=unprotected.server_lr,
        unprotected_decay=unprotected.server_decay,
        chosen_on=len(judged_records(plan.scenario, "choosing")),
        reported_on=len(judged_records(plan.scenario, "reporting")),
    )


def _statement(proof: Certificate, *, same_set: bool) -> str:
    size = 100 if proof.line_up is None else proof.line_up
    where = "at every N" if proof.line_up is None else f"at N = {size:,}"
    whose = "the test set, as there are no public records," if same_set else "the public records"
    others = f"the other {proof.reported_on}" if same_set else f"{proof.reported_on} test records"
    return (
        f"Proved for {'a whole client' if proof.level == 'client' else 'one record'} of a "
        f"training of {proof.rounds} rounds: nobody picks the right one of {size:,} more often "
        f"than at a rate of {proof.success[size]:.3g}, and the leakage is at most "
        f"{proof.leakage:.3g} {where}. Clip {proof.record_clip:.3g} and server step "
        f"{proof.server_lr:.3g}, falling to zero, were chosen on {proof.chosen_on} records of "
        f"{whose} (the unprotected training's step likewise); the accuracy is that on {others}."
    )
