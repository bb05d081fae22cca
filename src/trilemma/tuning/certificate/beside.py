"""The proof's measured companion: what whoever knows every other record picks at the setting.

The exact posterior is the best that can be made of that knowledge, so that its right picks show
how much of the bound is there to be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import client_leakage
from trilemma.estimation.recipes import Recipe
from trilemma.estimation.tasks import AttackTask, read_attack
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.results.verdict import Beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.bounds.training import Participation
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Ask

__all__ = ["measured_beside", "recipe_of"]

_GAMES: Final = 64
_CHUNK: Final = 16
_WHO: Final = "whoever knows every other record"


def recipe_of(candidate: Candidate) -> Recipe | None:
    """How a federation that deploys the candidate trains; None where that is its own way."""
    if candidate.deployment is None or candidate.certificate is None:
        return None
    return Recipe(
        candidate.deployment.local_training,
        candidate.certificate.server_lr,
        True,
        "test",
        candidate.deployment.threshold,
    )


def measured_beside(plan: Plan, chosen: Candidate) -> dict[str, Callable[[Ask], Beside]]:
    """Games of the exact posterior, with participation secret and known; none for FedAvg.

    Only the noise of the honest survivors that the proof counts is added: as much in the sum of
    all clients as those few leave there.
    """
    proof = chosen.certificate
    if proof is None or proof.clips_updates:
        return {}
    wanted: list[Participation] = ["known"]
    if proof.participation == "secret":
        wanted.insert(0, "secret")
    return {f"certified, {each}": _games(plan, chosen, each) for each in wanted}


def _games(plan: Plan, chosen: Candidate, participation: Participation) -> Callable[[Ask], Beside]:
    proof, deployment = chosen.certificate, chosen.deployment
    if proof is None or deployment is None:
        raise InvalidInput(f"{chosen.name} has no certificate to be measured beside.")
    single = proof.survivors == 1
    noise = Randomization(proof.variance * (1 if single else proof.survivors / deployment.cohort))
    shown = Protection((noise,)) if single else Protection((noise,), SecretSharing())
    size = plan.claim.candidates
    bound = proof.success[size]
    if participation == "known" and proof.known is not None:
        bound = proof.known[size]
    tasks = [
        AttackTask(
            "certified",
            shown.describe(),
            (plan.suite.lead,),
            Adversary.SERVER,
            plan.claim.rounds,
            first=first,
            count=_CHUNK,
            recipe=recipe_of(chosen),
            participation=participation,
        )
        for first in range(0, _GAMES, _CHUNK)
    ]

    def measure(ask: Ask) -> Beside:
        right = sum(sum(read_attack(each)["correct"][plan.suite.lead]) for each in ask(tasks))
        told = "told" if participation == "known" else "not told"
        return Beside(
            _WHO,
            f"{told} which rounds held the record, it picks the right one of {size} in {right} of "
            f"{_GAMES} games, where the proof allows a rate of {bound:.3g}",
            client_leakage(
                right, _GAMES, confidence=plan.request.confidence, kappa=plan.claim.kappa
            ),
            _GAMES,
            right,
        )

    return measure
