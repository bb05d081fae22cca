"""The proof's measured companion: what whoever knows every other record picks at the setting.

The exact posterior is the best that can be made of that knowledge, so that its right picks show
how much of the bound is there to be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.errors import InvalidInput
from trilemma.estimation.jobs import AttackJob
from trilemma.estimation.playing.claims import checkpoints
from trilemma.federation.recipe import Recipe
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.certificate.above import proved_points
from trilemma.tuning.families.counts import played
from trilemma.tuning.results.verdict import Beside, RoundsPoint

if TYPE_CHECKING:
    from trilemma.bounds.training import Participation
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.scheduler import Procedure

__all__ = ["GAMES", "games_beside", "measured_beside", "proved_rounds", "recipe_of"]

GAMES: Final = 64
_CHUNK: Final = 8  # whole trainings whose every round is attacked are large
_WHO: Final = "whoever knows every other record"


def recipe_of(candidate: Candidate) -> Recipe | None:
    """How a federation that deploys the candidate trains; None where that is its own way."""
    if candidate.deployment is None or candidate.certificate is None:
        return None
    return Recipe(
        candidate.deployment.local_training,
        candidate.certificate.server_lr,
        candidate.certificate.server_decay,
        equal_weights=True,
        threshold=candidate.deployment.threshold,
    )


def measured_beside(plan: Plan, chosen: Candidate) -> list[Procedure[Beside]]:
    """Right picks of the exact posterior beside what the proof allows; none for FedAvg."""
    return [_beside(plan, chosen, who) for who in _playable(chosen)]


def proved_rounds(plan: Plan, chosen: Candidate) -> Procedure[tuple[RoundsPoint, ...]]:
    """Leakage after 1 .. R rounds: the proof's bounds, and what is measured below them."""
    proof = chosen.certificate
    if proof is None or plan.claim.rounds == 1:
        return ()
    both: tuple[Participation, ...] = ("secret", "known")
    told = both if proof.participation == "secret" else both[1:]
    points = proved_points(plan, proof.training, told, proof.remainder)
    for who in _playable(chosen):
        seen = yield from played(games_beside(plan, chosen, who), _CHUNK)
        steps = checkpoints(plan.claim.rounds)
        for step, right in zip(steps, seen.after[plan.suite.lead], strict=True):
            points.append(RoundsPoint("rest", who, step, plan.leakage(right, GAMES)))
    return tuple(points)


def _playable(chosen: Candidate) -> tuple[Participation, ...]:
    """The participations that games are played for."""
    proof = chosen.certificate
    if proof is None or proof.clips_updates:
        return ()
    return ("secret", "known") if proof.participation == "secret" else ("known",)


def games_beside(plan: Plan, chosen: Candidate, participation: Participation) -> AttackJob:
    """Games of the exact posterior with only the noise of the honest survivors that count.

    It is as much in the attacked sum, of the fewest clients that a round ends with, as those few
    leave there.
    """
    proof, deployment = chosen.certificate, chosen.deployment
    if proof is None or deployment is None:
        raise InvalidInput(f"{chosen.name} has no certificate to be measured beside.")
    single = proof.survivors == 1
    noise = Randomization(
        proof.variance * (1 if single else proof.survivors / deployment.threshold)
    )
    shown = Protection((noise,)) if single else Protection((noise,), SecretSharing())
    return AttackJob(
        stream="certified",
        protection=shown.describe(),
        attacks=(plan.suite.lead,),
        adversary=Adversary.SERVER,
        rounds=plan.claim.rounds,
        first=0,
        count=GAMES,
        recipe=recipe_of(chosen),
        participation=participation,
    )


def _beside(plan: Plan, chosen: Candidate, participation: Participation) -> Procedure[Beside]:
    lead, size, proof = plan.suite.lead, plan.claim.candidates, chosen.certificate
    seen = yield from played(games_beside(plan, chosen, participation), _CHUNK)
    right = int(seen.correct[lead].sum())
    bounds = None if proof is None else proof.known if participation == "known" else proof.success
    told = "told" if participation == "known" else "not told"
    return Beside(
        _WHO,
        f"{told} which rounds held the record, it picks the right one of {size} in {right} of "
        f"{GAMES} games, where the proof allows a rate of {(bounds or {})[size]:.3g}",
        plan.leakage(right, GAMES),
        GAMES,
        right,
    )
