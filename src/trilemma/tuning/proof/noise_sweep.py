"""The figure beside a proof: success rate and accuracy at several noise multipliers.

With clipped records noise has one scale-free parameter, the noise multiplier z. For one recipe the
proof is a closed form in z; attackers of each knowledge play a number of games that is fixed
beforehand, at values of z that are, and their rates have intervals that hold all at once; and some
trainings say what accuracy is left. Games of all z share records, models and draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trilemma.accounting.noise_calibration import success_bound
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.beliefs.envelopes import envelopes
from trilemma.federation.recipe import Recipe
from trilemma.game.costs import in_points, paired_estimate
from trilemma.game.job_results import Failed
from trilemma.game.jobs import TrainJob
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.families.game_counts import cut, seen_of
from trilemma.tuning.proof.attacks_on_proof import (
    CHUNK,
    EFFORTS,
    Effort,
    attacks_on,
    games_beside,
    ordered,
    recipe_of,
)
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.results.success_by_noise import AttackerRate, TradeOff, TradeOffPoint
from trilemma.tuning.time_left import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.training import History
    from trilemma.game.estimates import Estimate
    from trilemma.game.job_results import AttackResult
    from trilemma.game.jobs import AttackJob
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.certificate import Certificate

__all__ = ["at_proved_noise", "possible_trade_off", "trade_off"]


def at_proved_noise(plan: Plan, chosen: Candidate) -> Procedure[TradeOff | None]:
    """The figure's one point that takes no further training, with its strong attackers alone.

    None where none of them can play.
    """
    if not attacks_on(plan, chosen):
        return None
    effort = replace(EFFORTS[plan.request.preset], factors=(1.0,), weak=0)
    return (yield from trade_off(plan, chosen, effort))


def trade_off(
    plan: Plan, chosen: Candidate | None, effort: Effort | None = None
) -> Procedure[TradeOff | None]:
    """The figure of what was proved and chosen; None where nothing was, or it has no price.

    Its `effort` is that of the preset unless another is given.
    """
    if chosen is None or chosen.certificate is None or chosen.costs is None:
        return None
    effort, proof = effort or EFFORTS[plan.request.preset], chosen.certificate
    trainings = {factor: _trainings(plan, chosen, factor) for factor in effort.factors}
    games = _games(plan, chosen, effort)
    jobs: list[TrainJob | AttackJob] = [job for some in trainings.values() for job in some]
    jobs += [part for job, _ in games for part in cut(job, CHUNK)]
    results = iter((yield jobs))
    trained = {factor: [next(results) for _ in some] for factor, some in trainings.items()}
    won, played = _counts(plan, chosen, effort, games, results)
    kept = [
        place
        for place, factor in enumerate(effort.factors)
        if not any(isinstance(result, Failed) for result in trained[factor])
    ]
    factors = [effort.factors[place] for place in kept]
    points = _points(
        plan,
        chosen,
        {factor: trained[factor] for factor in factors},
        won[:, kept],
        played[:, kept],
    )
    return TradeOff(
        candidates=plan.claim.candidates,
        participation=proof.participation,
        rounds=proof.rounds,
        summed=_summed(plan, chosen),
        noises=proof.survivors,
        seeds=len(plan.pricing.seeds),
        chosen=factors.index(1.0),
        allowed=plan.p_max,
        confidence=plan.request.confidence,
        points=tuple(points),
    )


def _counts(
    plan: Plan,
    chosen: Candidate,
    effort: Effort,
    games: Sequence[tuple[AttackJob, int]],
    results: Iterator[AttackResult],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Games won and played [K, Z], by knowledge and noise multiplier."""
    shape = len(KNOWLEDGE_LEVELS), len(effort.factors)
    won, played = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for job, place in games:
        seen = seen_of(job, [next(results) for _ in cut(job, CHUNK)])
        for knows, name in attacks_on(plan, chosen).items():
            if name in job.attacks:
                row = KNOWLEDGE_LEVELS.index(knows)
                won[row, place], played[row, place] = int(seen.correct[name].sum()), job.count
    return won, played


def _points(
    plan: Plan,
    chosen: Candidate,
    trained: Mapping[float, list[History]],
    won: NDArray[np.int64],
    played: NDArray[np.int64],
) -> Iterator[TradeOffPoint]:
    """By factor of the noise what trainings reach, what is proved, and what attackers reach."""
    proof, costs, confidence = chosen.certificate, chosen.costs, plan.request.confidence
    assert proof is not None
    assert costs is not None
    factors, best = list(trained), costs.best_unprotected_metric
    proved = np.array([_success(proof, factor, plan.claim.candidates) for factor in factors])
    metrics = [_metric(own, confidence, exactly=factor >= 1) for factor, own in trained.items()]
    falling = _falling([metric.value for metric in metrics], factors.index(1.0))
    attackers = _attackers(plan, won, played, proved)
    for place, (factor, (rates, crossed)) in enumerate(zip(factors, attackers, strict=True)):
        yield TradeOffPoint(
            noise_multiplier=proof.noise_multiplier * factor,
            variance=proof.variance * factor**2,
            metric=metrics[place],
            lost=costs.unprotected_metric - falling[place],
            lost_to_best=None if best is None else best - falling[place],
            proof=float(proved[place]),
            attackers=rates,
            crossed=crossed,
        )


def _attackers(
    plan: Plan, won: NDArray[np.int64], played: NDArray[np.int64], proved: NDArray[np.float64]
) -> Iterator[tuple[tuple[AttackerRate, ...], bool]]:
    """By noise multiplier the rates of all attackers, and whether their limits cross."""
    lower, upper, crossed = envelopes(won, played, proved, plan.request.confidence)
    rates = ordered(won, played, proved, plan.claim.kappa)
    for place in range(won.shape[1]):
        yield (
            tuple(
                AttackerRate(
                    knows=knows,
                    units=int(played[row, place]),
                    recovered=int(won[row, place]),
                    lower=float(lower[row, place]),
                    upper=float(upper[row, place]),
                    rate=float(rates[row, place]),
                )
                for row, knows in enumerate(KNOWLEDGE_LEVELS)
            ),
            bool(crossed[:, place].any()),
        )


def possible_trade_off(plan: Plan) -> dict[Kind, int]:
    """The games and trainings that it takes at most."""
    effort, rounds = EFFORTS[plan.request.preset], plan.claim.rounds
    proved = [family for family in plan.families if plan.proves(family)]
    summed = any(family.seen != "message" for family in proved)
    recipe = Recipe(Proof.of(plan, proved[0].carrier).local_training)
    carrier = "secret-sharing" if summed else "plain"
    secret = plan.request.participation == "secret"
    strong = ("exact-posterior",) if secret else ("exact-posterior", "gaussian-posterior")
    work = {
        Kind("games", strong, rounds, carrier): effort.games * len(effort.factors),
        kind_of(TrainJob("none", 0, plan.pricing.rounds, recipe)): len(plan.pricing.seeds)
        * (len(effort.factors) - 1),
    }
    if not secret:
        cells = len(effort.factors) if effort.weak_everywhere else 1
        work[Kind("games", ("linkage", "analytic"), rounds, carrier)] = effort.weak * cells
    return work


def _success(proof: Certificate, factor: float, size: int) -> float:
    """What is proved at a multiple of the proof's noise; its fixed point is finer there, or so."""
    training = replace(proof.training(), noise_multiplier=proof.noise_multiplier * factor)
    return success_bound(training, size, remainder=proof.remainder)


def _trainings(plan: Plan, chosen: Candidate, factor: float) -> list[TrainJob]:
    """Those that the candidate was priced by, and others with more or less noise."""
    recipe, proof = recipe_of(chosen), chosen.certificate
    assert recipe is not None
    assert proof is not None
    recipe = replace(recipe, judge="reporting", rounds=plan.pricing.rounds)
    spec = chosen.protection or "none"
    if factor != 1:
        (noise,) = parse_protection(spec).transforms
        assert isinstance(noise, Randomization)
        spec = Protection((replace(noise, variance=noise.variance * factor**2),)).describe()
    return [TrainJob(spec, seed, plan.pricing.rounds, recipe) for seed in plan.pricing.seeds]


def _games(plan: Plan, chosen: Candidate, effort: Effort) -> list[tuple[AttackJob, int]]:
    """The jobs, before they are cut, and the places of their noise multipliers."""
    able = attacks_on(plan, chosen)
    weak = tuple(able[knows] for knows in ("public", "nothing") if knows in able)
    jobs = []
    for place, factor in enumerate(effort.factors if able else ()):
        job = games_beside(plan, chosen, factor)
        if job.attacks:
            jobs.append((job, place))
        if weak and effort.weak and (place == 0 or effort.weak_everywhere):
            jobs.append((replace(job, attacks=weak, count=effort.weak), place))
    return jobs


def _summed(plan: Plan, chosen: Candidate) -> int:
    """How many clients are in what the attacker reads."""
    alone = chosen.certificate is not None and chosen.certificate.survivors == 1
    return 1 if alone and "+" not in chosen.name else plan.deployment.threshold


def _falling(means: Sequence[float], chosen: int) -> list[float]:
    """The means where they fall with noise; elsewhere the nearest that does, on the chosen side.

    >>> _falling([0.93, 0.95, 0.94, 0.96, 0.9], chosen=2)
    [0.95, 0.95, 0.94, 0.94, 0.9]
    """
    before = np.maximum.accumulate(means[chosen::-1])[::-1]
    after = np.minimum.accumulate(means[chosen:])
    return [*map(float, before[:-1]), *map(float, after)]


def _metric(trained: list[History], confidence: float, *, exactly: bool) -> Estimate:
    """The mean over seeds; in whole points where less noise than is proved would tell more."""
    found = paired_estimate([history.metric for history in trained], confidence)
    if exactly or not all(0 <= history.metric <= 1 for history in trained):
        return found
    return in_points(found)
