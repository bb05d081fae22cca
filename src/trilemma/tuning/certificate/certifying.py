"""From a proof to a certificate: clip and step that train best, and the bounds at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trilemma.bounds.certificate import epsilon, true_positive_rate
from trilemma.estimation.recipes import judged_records
from trilemma.tuning.certificate.searching import best_clip, best_unprotected
from trilemma.tuning.results.certificate import Certificate
from trilemma.work.scheduler import together

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.tuning.certificate.proof import Proof
    from trilemma.tuning.certificate.searching import Chosen
    from trilemma.tuning.plan import Plan
    from trilemma.work.scheduler import Procedure

__all__ = ["Certified", "certify"]

_SHOWN: Final = (2, 10, 100, 1000)  # line-ups, besides those claimed and measured
_DELTA: Final = 1e-5


@dataclass(frozen=True)
class Certified:
    """A certificate in a sentence, what was chosen, and the unprotected training beside it."""

    certificate: Certificate
    statement: str
    chosen: Chosen
    unprotected: Recipe


def certify(plan: Plan, proof: Proof) -> Procedure[Certified]:
    """Choose clip and server step by trainings, and state what the proof says there."""
    rounds = plan.pricing.rounds
    searches: list[Procedure[Any]] = [
        best_clip(proof, plan.scenario, rounds),
        best_unprotected(plan.scenario, rounds),
    ]
    chosen, unprotected = yield from together(searches)
    certificate = _certificate(plan, proof, chosen, unprotected)
    statement = _statement(certificate, same_set=plan.scenario.public is None)
    return Certified(certificate, statement, chosen, unprotected)


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
