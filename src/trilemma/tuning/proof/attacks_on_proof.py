"""Attacks on what was proved: games under its noise, or under more or less of it.

An attacker who knows every other record has the exact posterior, the best that can be made of
that knowledge, so that its success shows how much of the bound is there to be had. The number of
games is fixed beforehand, and the result is shown whatever it says: it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.attacks.crafted import IMPRINT, hidden_linear
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.beliefs.envelopes import envelopes
from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.game.estimates import Estimate
from trilemma.game.gpu_sharing import patient
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.claims import checkpoints
from trilemma.game.playing.suite import leading
from trilemma.game.recipe_scenarios import applied
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.quantities import rounded_up
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.bounds_by_rounds import proved_points
from trilemma.tuning.results.verdict import Beside, RoundsPoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.accounting.sampled_training import Participation
    from trilemma.attacks import KnowledgeLevel
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.scenario import Scenario
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.presets import Preset
    from trilemma.tuning.results.candidate import Candidate

__all__ = [
    "CHUNK", "EFFORTS", "Effort", "attacks_on", "crafted_beside", "games_beside", "ordered",
    "proved_rounds", "recipe_of",
]  # fmt: skip

_FINE_BITS: Final = 24  # of the grid in games of a round that stands for many
CHUNK: Final = 8  # whole trainings whose every round is attacked are large


@dataclass(frozen=True)
class Effort:
    """Noise multipliers over the proof's, the least first, and the games of a cell.

    Who knows the candidates or more plays `games` everywhere. Who knows less plays `weak` games:
    everywhere, or at the least noise alone, which bounds what it reaches under more.
    """

    factors: tuple[float, ...]
    games: int
    weak: int
    weak_everywhere: bool = False


EFFORTS: Final[dict[Preset, Effort]] = {
    "quick": Effort((0.25, 1.0, 2.0), 8, 4),
    "usual": Effort((0.25, 0.5, 1.0, 2.0), 16, 4),
    "thorough": Effort((0.125, 0.25, 0.5, 1.0, 1.5, 2.0), 300, 48, weak_everywhere=True),
}


def recipe_of(candidate: Candidate) -> Recipe | None:
    """How a federation that deploys the candidate trains; None where that is its own way."""
    if candidate.deployment is None or candidate.certificate is None:
        return None
    return Recipe.of(candidate.deployment)


def crafted_beside(plan: Plan, chosen: Candidate) -> Procedure[tuple[Beside, ...]]:
    """How often a malicious server guesses right beside what the proof allows; none for FedAvg."""
    proof, size = chosen.certificate, plan.claim.candidates
    if proof is None or (job := _crafted_job(plan, chosen)) is None:
        return ()
    seen = yield from played(job, CHUNK)
    right = int(seen.correct[job.attacks[0]].sum())
    bounds = proof.known or proof.success
    statement = (
        f"with one and the same crafted model ({job.crafted}) in all rounds, it guesses the right "
        f"one of {size} in {right} of {job.count} games, where the proof allows a rate of "
        f"{rounded_up(bounds[size]):g}, whatever the models are"
    )
    who = "a malicious server that knows every other record"
    return (Beside(who, statement, plan.leakage(right, job.count), job.count, right),)


def _crafted_job(plan: Plan, chosen: Candidate) -> AttackJob | None:
    """Games of one round as informative as all: the same model and records, variance over R.

    That is exact where each round uses all records. None where no crafted model is known.
    """
    proof, attacks = chosen.certificate, attacks_on(plan, chosen)
    if (
        proof is None
        or proof.clips_updates
        or proof.sampling_rate < 1
        or proof.participation == "secret"
        or "rest" not in attacks
        or hidden_linear(plan.scenario.task.model) is None
    ):
        return None
    job = games_beside(plan, chosen)
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
    granted = both if proof.participation == "secret" else both[1:]
    points = proved_points(plan, proof.training, granted, proof.remainder)
    able = attacks_on(plan, chosen)
    strong = {knows: able[knows] for knows in ("candidates", "rest") if knows in able}
    if not strong:
        return tuple(points)
    job = games_beside(plan, chosen)
    seen = yield from played(job, CHUNK)
    steps, kappa = checkpoints(plan.claim.rounds), plan.claim.kappa
    won = np.array([seen.after[name] for name in strong.values()])[:, ::-1]
    games = np.full_like(won, job.count)
    # After fewer rounds less is seen, as if there were more noise.
    lower, upper, _ = envelopes(won, games, confidence=plan.request.confidence)
    rates = ordered(won, games, np.ones(len(steps)), kappa)
    for row, knows in enumerate(strong):
        for place, step in enumerate(reversed(steps)):
            ends = (rates[row, place], lower[row, place], upper[row, place])
            leaks = [bernoulli_leakage(max(kappa, float(rate)), kappa) for rate in ends]
            point = Estimate(leaks[0], leaks[1], leaks[2])
            points.append(RoundsPoint(knows, proof.participation, step, point))
    return tuple(points)


def attacks_on(plan: Plan, chosen: Candidate) -> dict[KnowledgeLevel, str]:
    """By knowledge the attack that is played on what was proved; none on clipped updates.

    Without the rounds, the exact posterior alone.
    """
    proof, recipe = chosen.certificate, recipe_of(chosen)
    if proof is None or recipe is None or proof.clips_updates:
        return {}
    secret = proof.participation == "secret"
    return _attacks(plan.scenario, recipe, plan.claim.rounds, secret)


@lru_cache(maxsize=4)
def _attacks(
    scenario: Scenario, recipe: Recipe, rounds: int, secret: bool
) -> dict[KnowledgeLevel, str]:
    there = patient(partial(applied, recipe))(scenario)  # in full batches other attacks apply
    suites = {
        knows: leading(there, knows, rounds)
        for knows in KNOWLEDGE_LEVELS
        if knows == "rest" or not secret
    }
    return {knows: suite.lead for knows, suite in suites.items() if suite is not None}


def games_beside(plan: Plan, chosen: Candidate, factor: float = 1.0) -> AttackJob:
    """Games of who knows most, with only the noise of the honest survivors that count.

    It is as much in the attacked sum, of the fewest clients that a round ends with, as those few
    leave there; `factor` times the proof's.
    """
    proof, deployment = chosen.certificate, chosen.deployment
    if proof is None or deployment is None:
        raise InvalidInput(f"{chosen.name} has no certificate to be measured beside.")
    single = proof.survivors == 1 and "+" not in chosen.name
    counted = 1 if single else proof.survivors / deployment.threshold
    noise = Randomization(proof.variance * counted * factor**2)
    shown = Protection((noise,)) if single else Protection((noise,), SecretSharing())
    able = attacks_on(plan, chosen)
    return AttackJob(
        stream="certified",
        protection=shown.describe(),
        attacks=tuple(able[knows] for knows in ("rest", "candidates") if knows in able),
        adversary=Adversary.SERVER,
        rounds=plan.claim.rounds,
        first=0,
        count=EFFORTS[plan.request.preset].games,
        recipe=recipe_of(chosen),
        participation=proof.participation,
    )


def ordered(
    won: NDArray[np.int64], games: NDArray[np.int64], proof: NDArray[np.float64], blind: float
) -> NDArray[np.float64]:
    """Rates [K, Z] that rise with knowledge and fall with noise, near to won / games.

    Half-way between the largest rate of who knows no more under no less noise, and the least of
    who knows no less under no more; within a blind guess and the proof. A cell without games says
    nothing.

    >>> ordered(np.array([[3, 0], [2, 1]]), np.full((2, 2), 10), np.ones(2), 0.1)
    array([[0.25, 0.1 ],
           [0.25, 0.1 ]])
    """
    with np.errstate(invalid="ignore"):
        rates = np.where(games > 0, won / games, np.nan)
    highest = np.fmax.accumulate(np.fmax.accumulate(rates[:, ::-1], axis=1)[:, ::-1], axis=0)
    lowest = np.fmin.accumulate(np.fmin.accumulate(rates, axis=1)[::-1], axis=0)[::-1]
    highest = np.where(np.isnan(highest), lowest, highest)
    lowest = np.where(np.isnan(lowest), highest, lowest)
    middle = np.nan_to_num((highest + lowest) / 2)
    return np.minimum(np.maximum(middle, blind), proof)
