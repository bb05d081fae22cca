"""Attacks on what was proved: how often attackers guess right where the proof allows so much.

An attacker who knows every other record has the exact posterior, the best that can be made of
that knowledge, so that its success shows how much of the bound is there to be had; beside it
stands the best of one who knows the candidates alone. The number of games is fixed beforehand, and
the result is shown whatever it says: it decides nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.attacks.crafted import IMPRINT, hidden_linear
from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.claims import checkpoints
from trilemma.game.playing.suite import leading
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.bounds_by_rounds import proved_points
from trilemma.tuning.results.verdict import Beside, RoundsPoint
from trilemma.tuning.time_left import Kind

if TYPE_CHECKING:
    from trilemma.accounting.sampled_training import Participation
    from trilemma.attacks import Rung
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.presets import Preset
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["measured_beside", "possible_beside", "proved_rounds", "recipe_of"]

_GAMES: Final[dict[Preset, int]] = {"quick": 16, "usual": 24, "thorough": 300}
_FINE_BITS: Final = 24  # of the grid in games of a round that stands for many
_CHUNK: Final = 8  # whole trainings whose every round is attacked are large
_WHO: Final[dict[Rung, str]] = {
    "rest": "an attacker who knows every other record",
    "candidates": "an attacker who knows the candidates",
}


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


def possible_beside(plan: Plan) -> dict[Kind, int]:
    """The games that are played at most."""
    secret = plan.request.participation == "secret"
    rounds, games = plan.claim.rounds, _GAMES[plan.request.preset]
    work = {Kind("games", tuple(_attacks(plan, "known").values()), rounds): games}
    if secret:
        alone = Kind("games", tuple(_attacks(plan, "secret").values()), rounds)
        work[alone] = work.get(alone, 0) + games
    elif (lead := _attacks(plan, "known").get("rest")) is not None:
        crafted = Kind("games", (lead,), 1)
        work[crafted] = work.get(crafted, 0) + games
    return work


def measured_beside(plan: Plan, chosen: Candidate) -> Procedure[tuple[Beside, ...]]:
    """How often each attacker guesses right beside what the proof allows; none for FedAvg."""
    proof, size = chosen.certificate, plan.claim.candidates
    assert proof is not None, "asked of what is proved alone"
    found = []
    for participation in _playable(chosen):
        job = games_beside(plan, chosen, participation)
        seen = yield from played(job, _CHUNK)
        bounds = proof.known if participation == "known" and proof.known else proof.success
        knows = "known" if participation == "known" else "not known"
        for rung, name in _attacks(plan, participation).items():
            right = int(seen.correct[name].sum())
            found.append(
                Beside(
                    _WHO[rung],
                    f"with the rounds that held the record {knows}, it guesses the right one of "
                    f"{size} in {right} of {job.count} games, where the proof allows a rate of "
                    f"{bounds[size]:.3g}",
                    plan.leakage(right, job.count),
                    job.count,
                    right,
                )
            )
    if (crafted := _crafted_job(plan, chosen)) is not None:
        seen = yield from played(crafted, _CHUNK)
        right = int(seen.correct[crafted.attacks[0]].sum())
        bounds = proof.known or proof.success
        found.append(
            Beside(
                "a malicious server that knows every other record",
                f"with one and the same crafted model ({crafted.crafted}) in all rounds, it "
                f"guesses the right one of {size} in {right} of {crafted.count} games, where the "
                f"proof allows a rate of {bounds[size]:.3g}, whatever the models are",
                plan.leakage(right, crafted.count),
                crafted.count,
                right,
            )
        )
    return tuple(found)


def _crafted_job(plan: Plan, chosen: Candidate) -> AttackJob | None:
    """Games of one round as informative as all: the same model and records, variance over R.

    That is exact where each round uses all records. None where no crafted model is known.
    """
    proof, attacks = chosen.certificate, _attacks(plan, "known")
    if (
        proof is None
        or proof.clips_updates
        or proof.sampling_rate < 1
        or proof.participation == "secret"
        or "rest" not in attacks
        or hidden_linear(plan.scenario.task.model) is None
    ):
        return None
    job = games_beside(plan, chosen, "known")
    noise, *_ = parse_protection(job.protection).transforms
    assert isinstance(noise, Randomization)
    reduced = Randomization(noise.variance / plan.claim.rounds)
    single = "secret-sharing" not in job.protection
    fine = SecretSharing(precision_bits=_FINE_BITS, ring_bits=64)
    shown = Protection((reduced,)) if single else Protection((reduced,), fine)
    return replace(
        job,
        stream="crafted",
        protection=shown.describe(),
        attacks=(attacks["rest"],),
        rounds=1,
        crafted=IMPRINT,
    )


def proved_rounds(plan: Plan, chosen: Candidate) -> Procedure[tuple[RoundsPoint, ...]]:
    """Leakage after 1 .. R rounds: the proof's bounds, and what is measured below them."""
    proof = chosen.certificate
    if proof is None or plan.claim.rounds == 1:
        return ()
    both: tuple[Participation, ...] = ("secret", "known")
    told = both if proof.participation == "secret" else both[1:]
    points = proved_points(plan, proof.training, told, proof.remainder)
    steps = checkpoints(plan.claim.rounds)
    for who in _playable(chosen):
        job = games_beside(plan, chosen, who)
        seen = yield from played(job, _CHUNK)
        for rung, name in _attacks(plan, who).items():
            for step, right in zip(steps, seen.after[name], strict=True):
                points.append(RoundsPoint(rung, who, step, plan.leakage(right, job.count)))
    return tuple(points)


def _attacks(plan: Plan, participation: Participation) -> dict[Rung, str]:
    """By knowledge the attack that is played; without the rounds, the exact posterior alone."""
    rungs = [rung for rung in _WHO if participation == "known" or rung == "rest"]
    suites = {rung: leading(plan.scenario, rung, plan.claim.rounds) for rung in rungs}
    return {rung: suite.lead for rung, suite in suites.items() if suite is not None}


def _playable(chosen: Candidate) -> tuple[Participation, ...]:
    """The participations that games are played for."""
    proof = chosen.certificate
    if proof is None or proof.clips_updates:
        return ()
    return ("secret", "known") if proof.participation == "secret" else ("known",)


def games_beside(plan: Plan, chosen: Candidate, participation: Participation) -> AttackJob:
    """Games with only the noise of the honest survivors that count.

    It is as much in the attacked sum, of the fewest clients that a round ends with, as those few
    leave there.
    """
    proof, deployment = chosen.certificate, chosen.deployment
    if proof is None or deployment is None:
        raise InvalidInput(f"{chosen.name} has no certificate to be measured beside.")
    single = proof.survivors == 1 and "+" not in chosen.name
    noise = Randomization(
        proof.variance * (1 if single else proof.survivors / deployment.threshold)
    )
    shown = Protection((noise,)) if single else Protection((noise,), SecretSharing())
    return AttackJob(
        stream="certified",
        protection=shown.describe(),
        attacks=tuple(_attacks(plan, participation).values()),
        adversary=Adversary.SERVER,
        rounds=plan.claim.rounds,
        first=0,
        count=_GAMES[plan.request.preset],
        recipe=recipe_of(chosen),
        participation=participation,
    )
