"""What is shown of the chosen protection: leakage against rounds, and the paper's leakage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.attacks import get
from trilemma.attacks.base import RUNGS
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
    from trilemma.attacks import Rung
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.job_results import BeliefResult
    from trilemma.game.playing.claims import Participation
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["leakage_by_rounds", "paper_leakage", "possible_shown"]

_BELIEVERS: Final[dict[Rung, str]] = {
    "candidates": "gaussian-posterior",
    "rest": "exact-posterior",
}
_GAMES: Final = 48
_CHUNK: Final = 24
_LINE_UPS, _AT_ONCE = 16, 4
_DRAWS: Final = 6


def possible_shown(plan: Plan) -> dict[str, dict[Kind, int]]:
    """By "rounds" and "beliefs" the games that they play at most."""
    rounds, leads = plan.claim.rounds, _leads(plan)
    believers = tuple(lead for rung, lead in leads.items() if rung in _BELIEVERS)
    draws = Kind("beliefs", tuple(_BELIEVERS.values()), rounds)
    games = {Kind("games", believers, rounds): _GAMES} if believers else {}
    for rung, lead in leads.items():
        if rung not in _BELIEVERS:
            games[Kind("games", (lead,), rounds)] = _CHUNK
    return {
        "rounds": games if rounds > 1 else {},
        "beliefs": {draws: _LINE_UPS * _DRAWS},
    }


def _leads(plan: Plan) -> dict[Rung, str]:
    """The leading attack of each rung that has one of its own."""
    suites = {rung: leading(plan.scenario, rung, plan.claim.rounds) for rung in RUNGS}
    return {rung: own.lead for rung, own in suites.items() if own is not None}


def _visible(plan: Plan, chosen: Candidate) -> bool:
    reads = parse_protection(chosen.protection or "none").transport.server_reads
    return plan.request.adversary is not Adversary.SERVER or reads != "nothing"


def leakage_by_rounds(plan: Plan, chosen: Candidate) -> Procedure[tuple[RoundsPoint, ...]]:
    """Leakage after 1 .. R rounds of the same trainings; participation known, and secret too.

    Who has a belief plays games of its own; who reconstructs is shown in the games of its test,
    or in a few where there is none. Secret is what nobody is told under Poisson sampling; it is
    inferred under Gaussian noise. Above them stands what is proved, if anything is; of a proof,
    what it says of fewer rounds.
    """
    if chosen.certificate is not None:
        return (yield from proved_rounds(plan, chosen))
    if plan.claim.rounds == 1 or not _visible(plan, chosen):
        return ()
    tested = _tested(chosen)
    leads = _leads(plan)
    # Those who have a belief look at the same trainings.
    believers = tuple(lead for rung, lead in leads.items() if rung in _BELIEVERS)
    believed: dict[str, tuple[int, ...]] = {}
    if believers:
        believed = yield from _played(plan, chosen, believers, _GAMES, "known")
    curves: list[tuple[Rung, Participation, tuple[int, ...], int]] = []
    for rung in RUNGS:
        if rung not in _BELIEVERS and rung in tested:
            curves.append((rung, "known", *tested[rung]))
        elif rung in leads and rung in _BELIEVERS:
            curves.append((rung, "known", believed[leads[rung]], _GAMES))
        elif rung in leads:
            won = yield from _played(plan, chosen, (leads[rung],), _CHUNK, "known")
            curves.append((rung, "known", won[leads[rung]], _CHUNK))
    for rung, participation in _secret(plan, chosen):
        name = _BELIEVERS[rung]
        won = yield from _played(plan, chosen, (name,), _GAMES, participation)
        curves.append((rung, participation, won[name], _GAMES))
    steps = checkpoints(plan.claim.rounds)
    points = [
        RoundsPoint(rung, participation, step, plan.leakage(won, games))
        for rung, participation, after, games in curves
        for step, won in zip(steps, after, strict=True)
    ]
    return (*points, *bounds_above(plan, chosen))


def _tested(chosen: Candidate) -> dict[Rung, tuple[tuple[int, ...], int]]:
    """By rung games won after each of the checkpoints, and all games, of the strongest attack.

    They are those of the attacks' own tests over a whole training, at what was chosen.
    """
    own = [each for each in chosen.tests if each.strength == chosen.strength and each.after]
    rising = sorted(own, key=lambda each: each.recovered / each.units)
    return {get(each.attack).rung: (each.after, each.units) for each in rising}


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


def _secret(plan: Plan, chosen: Candidate) -> tuple[tuple[Rung, Participation], ...]:
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
        for first in range(0, _LINE_UPS, _AT_ONCE)
    ]
    clients = np.concatenate([result.client for result in results])
    made = []
    for attack in _BELIEVERS.values():
        values = np.concatenate([result.leakage[attack] for result in results])
        means = [float(values[clients == k].mean()) for k in np.unique(clients)]
        made.append(PaperLeakage(attack, float(np.mean(means)), max(means), _LINE_UPS, _DRAWS))
    return tuple(made)
