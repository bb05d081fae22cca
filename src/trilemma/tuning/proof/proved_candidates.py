"""Certified candidates: proved for any attacker, and priced by trainings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.accounting.noise_calibration import epsilon, true_positive_rate
from trilemma.game.estimates import Estimate
from trilemma.game.recipe_scenarios import judged_records, settled
from trilemma.observations import Adversary
from trilemma.quantities import rounded_up
from trilemma.tuning.families.pricing import priced
from trilemma.tuning.proof.baseline_search import best_free, best_unprotected
from trilemma.tuning.proof.noise_for_budget import Proof, helpers_of
from trilemma.tuning.recipe_rule import how_chosen
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.certificate import Certificate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.recipe import Recipe
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.plan import Plan

__all__ = ["certified_candidate"]

_SHOWN: Final = (2, 10, 100, 1000)  # candidate sets, besides those claimed and measured
_DELTA: Final = 1e-5
_HELPED: Final = (
    "One client that helps the server holds the key and opens every single update, so that noise "
    "shared by the clients hides nobody; use secret sharing or randomization alone, or exclude "
    "helpers (helpers = 0)."
)


def certified_candidate(plan: Plan, family: Family) -> Procedure[Candidate]:
    """What is proved of a family, and what it costs."""
    server = plan.request.adversary is Adversary.SERVER
    if family.carrier == "paillier" and helpers_of(plan) and server:
        return Candidate(family.name, "certified", False, True, _HELPED)
    proof, scenario, rounds = Proof.of(plan, family.carrier), plan.scenario, plan.pricing.rounds
    recipe = proof.recipe(scenario, rounds)
    unprotected = yield from best_unprotected(scenario, rounds)
    best = yield from best_free(scenario, unprotected, recipe, rounds)
    certificate, protection = _certificate(plan, proof, recipe, unprotected), proof.protection()
    own = settled(recipe, scenario)
    candidate = Candidate(
        name=family.name,
        basis="certified",
        feasible=certificate.leakage <= plan.request.budget,
        deployable=True,
        statement=_statement(
            certificate,
            f"{_batches(proof)}{how_chosen(recipe, proof.fixed)}",
            same_set=scenario.public is None,
        ),
        rounds=certificate.rounds,
        protection=protection.describe(),
        symbol=family.symbol,
        strength=certificate.variance,
        leakage=Estimate(certificate.leakage, 0.0, certificate.leakage),
        certificate=certificate,
        deployment=proof.deployment(own),
    )
    own, without, best = (replace(value, judge="reporting") for value in (own, unprotected, best))
    return (
        yield from priced(
            candidate, protection, plan.pricing, recipe=own, without=without, best=best
        )
    )


def _batches(proof: Proof) -> str:
    """Whether rounds use all records, where that is no matter of course."""
    training = proof.local_training
    if training.sampling != "poisson" or proof.clips_updates:
        return ""
    knows = "knows which rounds do" if proof.participation == "known" else "does not know when"
    why = "" if proof.fixed.kept else ", as full batches would cost a client too much"
    return (
        f"A round uses each record with probability {proof.training.q:.3g}{why}; the attacker "
        f"{knows}. "
    )


def _certificate(plan: Plan, proof: Proof, recipe: Recipe, unprotected: Recipe) -> Certificate:
    sizes = sorted({*_SHOWN, plan.claim.candidates, *filter(None, [plan.request.candidates])})
    leakage, worst = proof.leakage()
    return Certificate(
        level=proof.level,
        noise_multiplier=proof.training.noise_multiplier,
        variance=proof.variance(),
        record_clip=proof.clip,
        server_lr=recipe.step,
        rounds=proof.training.rounds,
        sampling_rate=proof.training.q,
        participation=proof.participation,
        survivors=proof.survivors,
        helpers=proof.helpers,
        person=proof.person,
        success={size: proof.success(size) for size in sizes},
        leakage=leakage,
        worst_candidates=worst,
        epsilon=epsilon(proof.training, _DELTA),
        delta=_DELTA,
        true_positive_rate=true_positive_rate(proof.training),
        clips_updates=proof.clips_updates,
        known={size: proof.success(size, "known") for size in sizes},
        candidates=proof.candidates,
        remainder=proof.remainder,
        server_decay=recipe.server_decay,
        unprotected_lr=unprotected.server_lr,
        unprotected_decay=unprotected.server_decay,
        chosen_on=len(judged_records(plan.scenario, "choosing")),
        reported_on=len(judged_records(plan.scenario, "reporting")),
    )


def _statement(proof: Certificate, chosen: str, *, same_set: bool) -> str:
    size = 100 if proof.candidates is None else proof.candidates
    where = "at every N" if proof.candidates is None else f"at N = {size:,}"
    whose = "the test set, as there are no public records" if same_set else "the public records"
    others = f"the other {proof.reported_on}" if same_set else f"{proof.reported_on} test records"
    return (
        f"Proved for {'a whole client' if proof.level == 'client' else 'one record'} of a "
        f"training of {proof.rounds} rounds: of {size:,} equally likely candidates the right one "
        f"is guessed at a rate of at most {rounded_up(proof.success[size]):g}, and the leakage is "
        f"at most {rounded_up(proof.leakage):g} {where}. {chosen} The steps of the trainings "
        f"without protection were chosen on {proof.chosen_on} records of {whose}; every accuracy "
        f"is that on {others}."
    )
