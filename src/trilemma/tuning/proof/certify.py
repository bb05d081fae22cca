"""From a proof to a certificate: the bounds, and the trainings that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.accounting.noise_calibration import epsilon, true_positive_rate
from trilemma.game.recipe_scenarios import judged_records, settled
from trilemma.quantities import rounded_up
from trilemma.tuning.proof.baseline_search import best_free, best_unprotected
from trilemma.tuning.recipe_rule import how_chosen
from trilemma.tuning.results.certificate import Certificate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.recipe import Recipe
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.proof.noise_for_budget import Proof

__all__ = ["Certified", "certify"]

_SHOWN: Final = (2, 10, 100, 1000)  # candidate sets, besides those claimed and measured
_DELTA: Final = 1e-5


@dataclass(frozen=True)
class Certified:
    """A certificate, in a sentence too, and the recipes: its own and two without protection."""

    certificate: Certificate
    statement: str
    recipe: Recipe
    unprotected: Recipe
    best: Recipe


def certify(plan: Plan, proof: Proof) -> Procedure[Certified]:
    """State what the proof says, and find the best trainings without protection."""
    scenario, rounds = plan.scenario, plan.pricing.rounds
    recipe = proof.recipe(scenario, rounds)
    unprotected = yield from best_unprotected(scenario, rounds)
    best = yield from best_free(scenario, unprotected, recipe, rounds)
    certificate = _certificate(plan, proof, recipe, unprotected)
    said = f"{_batches(proof)}{how_chosen(recipe, proof.fixed)}"
    statement = _statement(certificate, said, same_set=scenario.public is None)
    return Certified(certificate, statement, settled(recipe, scenario), unprotected, best)


def _batches(proof: Proof) -> str:
    """Whether rounds use all records, where that is no matter of course."""
    training = proof.local_training
    if training.sampling != "poisson" or proof.clips_updates:
        return ""
    told = "is told which rounds do" if proof.participation == "known" else "is not told when"
    why = "" if proof.fixed.kept else ", as full batches would cost a client too much"
    return (
        f"A round uses each record with probability {proof.training.q:.3g}{why}; the attacker "
        f"{told}. "
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
