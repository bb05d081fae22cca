"""What is shown of the chosen protection: leakage against rounds, and the paper's leakage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.beliefs.belief import bernoulli_leakage, largest_success_rate
from trilemma.beliefs.envelopes import envelopes
from trilemma.game.estimates import Estimate
from trilemma.game.jobs import AttackJob, BeliefJob
from trilemma.game.playing.claims import checkpoints
from trilemma.game.playing.suite import leading
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.attacks_on_proof import proved_rounds
from trilemma.tuning.proof.bounds_by_rounds import bounds_above
from trilemma.tuning.results.verdict import PaperLeakage, RoundsPoint
from trilemma.tuning.time_left import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trilemma.attacks import KnowledgeLevel
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.job_results import BeliefResult
    from trilemma.game.playing.claims import Participation
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

    _Curve = tuple[KnowledgeLevel, Participation]

__all__ = ["leakage_by_rounds", "paper_leakage", "possible_shown"]

_BELIEVERS: Final[dict[KnowledgeLevel, str]] = {
    "candidates": "gaussian-posterior",
    "rest": "exact-posterior",
}
_GAMES: Final = 48
_CHUNK: Final = 24
_CANDIDATE_SETS, _AT_ONCE = 16, 4
_DRAWS: Final = 6


def possible_shown(plan: Plan) -> dict[str, dict[Kind, int]]:
    """By "rounds" and "beliefs" the games that they play at most."""
    rounds, leads = plan.claim.rounds, _leads(plan)
    believers = tuple(lead for knows, lead in leads.items() if knows in _BELIEVERS)
    draws = Kind("beliefs", tuple(_BELIEVERS.values()), rounds)
    games = {Kind("games", believers, rounds): _GAMES} if believers else {}
    for knows, lead in leads.items():
        if knows not in _BELIEVERS:
            games[Kind("games", (lead,), rounds)] = _CHUNK
    return {
        "rounds": games if rounds > 1 else {},
        "beliefs": {draws: _CANDIDATE_SETS * _DRAWS},
    }


def _leads(plan: Plan) -> dict[KnowledgeLevel, str]:
    """The leading attack of each knowledge that has one of its own."""
    suites = {
        knows: leading(plan.scenario, knows, plan.claim.rounds) for knows in KNOWLEDGE_LEVELS
    }
    return {knows: own.lead for knows, own in suites.items() if own is not None}


def _visible(plan: Plan, chosen: Candidate) -> bool:
    reads = parse_protection(chosen.protection or "none").transport.server_reads
    return plan.request.adversary is not Adversary.SERVER or reads != "nothing"


def leakage_by_rounds(plan: Plan, chosen: Candidate) -> Procedure[tuple[RoundsPoint, ...]]:
    """Leakage after 1 .. R rounds of the same trainings; participation known, and secret too.

    All play games of their own, of a number fixed beforehand. Participation is secret under
    Poisson sampling; it is inferred under Gaussian noise. Above them stands what is proved, if
    anything is; of a proof, what it says of fewer rounds.
    """
    if chosen.certificate is not None:
        return (yield from proved_rounds(plan, chosen))
    if plan.claim.rounds == 1 or not _visible(plan, chosen):
        return ()
    leads = _leads(plan)
    # Attacks with a belief look at the same trainings.
    believers = tuple(lead for knows, lead in leads.items() if knows in _BELIEVERS)
    believed: dict[str, tuple[int, ...]] = {}
    if believers:
        believed = yield from _played(plan, chosen, believers, _GAMES, "known")
    curves: dict[_Curve, tuple[tuple[int, ...], int]] = {}
    for knows, lead in leads.items():
        if knows in _BELIEVERS:
            curves[knows, "known"] = believed[lead], _GAMES
        else:
            won = yield from _played(plan, chosen, (lead,), _CHUNK, "known")
            curves[knows, "known"] = won[lead], _CHUNK
    for knows, participation in _secret(plan, chosen):
        name = _BELIEVERS[knows]
        won = yield from _played(plan, chosen, (name,), _GAMES, participation)
        curves[knows, participation] = won[name], _GAMES
    bounds = bounds_above(plan, chosen)
    return (*_in_order(plan, curves, bounds), *bounds)


def _in_order(
    plan: Plan, curves: Mapping[_Curve, tuple[tuple[int, ...], int]], bounds: Sequence[RoundsPoint]
) -> list[RoundsPoint]:
    """The points of games won after each of the checkpoints, from the least knowledge up.

    An attacker who knows more, or the rounds, or has seen more of them, wins at least as often,
    and none more often than is proved: intervals are the envelopes of all points, and a rate is
    the largest of those who know and have seen no more. Records are used in the whole training,
    after fewer rounds perhaps not yet.
    """
    steps, kappa = checkpoints(plan.claim.rounds), plan.claim.kappa
    ends: dict[_Curve, list[NDArray[np.float64]]] = {}
    for curve, own in _envelopes(plan, curves, bounds):
        if curve in ends:  # who knows the rounds is at the end of both chains
            own[:2] = [np.maximum(*pair) for pair in zip(ends[curve][:2], own[:2], strict=True)]
        elif curve[1] == "secret":
            own[2] = np.minimum(own[2], _proof(bounds, "secret", steps, kappa))
        ends[curve] = own
    points = []
    for curve, own in ends.items():
        for step, value, low, high in zip(steps, *(item[::-1] for item in own), strict=True):
            rate = np.clip(value, min(low, high), max(low, high))
            leaks = (bernoulli_leakage(float(end), kappa) for end in (rate, low, high))
            points.append(RoundsPoint(*curve, step, Estimate(*leaks), crossed=bool(low > high)))
    return points


def _envelopes(
    plan: Plan, curves: Mapping[_Curve, tuple[tuple[int, ...], int]], bounds: Sequence[RoundsPoint]
) -> Iterator[tuple[_Curve, list[NDArray[np.float64]]]]:
    """Rates and limits [rate, lower, upper] of each curve, the most rounds first.

    Curves are in chains, in each of which the next wins at least as often: all that know the
    rounds, by knowledge; and each that does not, below the same with the rounds.
    """
    steps, kappa = checkpoints(plan.claim.rounds), plan.claim.kappa
    known: list[_Curve] = [(k, "known") for k in KNOWLEDGE_LEVELS if (k, "known") in curves]
    secret: list[list[_Curve]] = [
        [curve, (curve[0], "known")] for curve in curves if curve[1] == "secret"
    ]
    chains = [known, *secret] if known else secret
    rows = sum(map(len, chains))
    for chain in chains:
        # Most rounds first: fewer are as if there were more noise.
        won = np.array([curves[curve][0] for curve in chain])[:, ::-1]
        games = np.array([[curves[curve][1]] * len(steps) for curve in chain])
        sure = 1 - (1 - plan.request.confidence) * len(chain) / rows
        lower, upper, _ = envelopes(won, games, _proof(bounds, "known", steps, kappa), sure)
        rates = np.maximum.accumulate(
            np.maximum.accumulate((won / games)[:, ::-1], axis=1)[:, ::-1], axis=0
        )
        for curve, *own in zip(chain, rates, lower, upper, strict=True):
            yield curve, own


def _proof(
    bounds: Sequence[RoundsPoint], participation: Participation, steps: Sequence[int], kappa: float
) -> NDArray[np.float64]:
    """The success rates that are proved after so many rounds or more, the most rounds first."""
    proved = {
        bound.rounds: bound.leakage.high
        for bound in bounds
        if bound.participation == participation
    }
    most = [proved.get(step, 1.0) for step in reversed(steps)]
    rates = [largest_success_rate(high, kappa) if high < 1 else 1.0 for high in most]
    return np.minimum.accumulate(rates)


def _played(
    plan: Plan,
    chosen: Candidate,
    attacks: tuple[str, ...],
    games: int,
    participation: Participation,
) -> Procedure[dict[str, tuple[int, ...]]]:
    """By attack the games won after each of the checkpoints."""
    job = AttackJob(
        stream="rounds",
        protection=chosen.protection or "none",
        attacks=attacks,
        adversary=plan.request.adversary,
        rounds=plan.claim.rounds,
        first=0,
        count=games,
        participation=participation,
    )
    return (yield from played(job, _CHUNK)).after


def _secret(plan: Plan, chosen: Candidate) -> tuple[tuple[KnowledgeLevel, Participation], ...]:
    noise = parse_protection(chosen.protection or "none").transforms
    alone = len(noise) == 1 and isinstance(noise[0], Randomization) and noise[0].clip is None
    poisson = plan.scenario.local_training.participation == "secret"
    return (("rest", "secret"),) if alone and poisson else ()


def paper_leakage(plan: Plan, chosen: Candidate) -> Procedure[tuple[PaperLeakage, ...]]:
    """The paper's leakage of the attackers that have a belief; none beside a proof."""
    if chosen.certificate is not None or not _visible(plan, chosen):
        return ()
    results: list[BeliefResult] = yield [
        BeliefJob(
            stream="beliefs",
            protection=chosen.protection or "none",
            attacks=tuple(_BELIEVERS.values()),
            adversary=plan.request.adversary,
            rounds=plan.claim.rounds,
            first=first,
            count=_AT_ONCE,
            draws=_DRAWS,
        )
        for first in range(0, _CANDIDATE_SETS, _AT_ONCE)
    ]
    clients = np.concatenate([result.client for result in results])
    made = []
    for attack in _BELIEVERS.values():
        values = np.concatenate([result.leakage[attack] for result in results])
        means = [float(values[clients == k].mean()) for k in np.unique(clients)]
        made.append(
            PaperLeakage(attack, float(np.mean(means)), max(means), _CANDIDATE_SETS, _DRAWS)
        )
    return tuple(made)
