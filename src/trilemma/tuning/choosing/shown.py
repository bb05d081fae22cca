"""What is shown of the chosen protection: leakage against rounds, and the paper's leakage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.estimation.leakage import client_leakage
from trilemma.estimation.tasks import AttackTask, BeliefTask, read_attack
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.results.verdict import PaperLeakage, RoundsPoint

if TYPE_CHECKING:
    from trilemma.attacks import Rung
    from trilemma.tuning.choosing.procedures import Procedure
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Ask

__all__ = ["beliefs_procedure", "checkpoints", "rounds_procedure"]

_BELIEVERS: Final[dict[Rung, str]] = {
    "candidates": "gaussian-posterior",
    "rest": "exact-posterior",
}
_GAMES: Final = 48
_CHUNK: Final = 24
_LINE_UPS: Final = 16
_DRAWS: Final = 6


def checkpoints(rounds: int) -> tuple[int, ...]:
    """Numbers of rounds after which an attacker picks, evenly spread on a log scale.

    >>> checkpoints(150)
    (1, 3, 7, 20, 55, 150)
    """
    if rounds == 1:
        return (1,)
    steps = np.unique(np.geomspace(1, rounds, 6).round().astype(int))
    return tuple(int(step) for step in steps)


def _visible(plan: Plan, chosen: Candidate) -> bool:
    reads = parse_protection(chosen.protection or "none").transport.server_reads
    return plan.request.adversary is not Adversary.SERVER or reads != "nothing"


def rounds_procedure(plan: Plan, chosen: Candidate) -> Procedure:
    """Leakage after 1 .. R rounds of the same trainings, participation known."""

    def measure(ask: Ask) -> tuple[RoundsPoint, ...]:
        if plan.claim.rounds == 1 or not _visible(plan, chosen):
            return ()
        made = []
        steps = checkpoints(plan.claim.rounds)
        for rung, attack in _BELIEVERS.items():
            tasks = [
                AttackTask(
                    stream="rounds",
                    protection=chosen.protection or "none",
                    attacks=(attack,),
                    adversary=plan.request.adversary,
                    rounds=plan.claim.rounds,
                    first=first,
                    count=_CHUNK,
                    checkpoints=steps,
                )
                for first in range(0, _GAMES, _CHUNK)
            ]
            parts = [read_attack(payload)["after"][attack] for payload in ask(tasks)]
            for step in steps:
                won = sum(sum(part[str(step)]) for part in parts)
                made.append(RoundsPoint(rung, "known", step, _leakage(plan, won, _GAMES)))
        return tuple(made)

    return measure


def _leakage(plan: Plan, won: int, games: int) -> Any:
    sure, kappa = plan.request.confidence, plan.claim.kappa
    return client_leakage(won, games, confidence=sure, kappa=kappa)


def beliefs_procedure(plan: Plan, chosen: Candidate) -> Procedure:
    """The paper's leakage of the attackers that have a belief."""

    def measure(ask: Ask) -> tuple[PaperLeakage, ...]:
        if not _visible(plan, chosen):
            return ()
        made = []
        for attack in _BELIEVERS.values():
            task = BeliefTask(
                stream="beliefs",
                protection=chosen.protection or "none",
                attack=attack,
                adversary=plan.request.adversary,
                rounds=plan.claim.rounds,
                first=0,
                count=_LINE_UPS,
                draws=_DRAWS,
            )
            found = read_attack(ask([task])[0])
            clients, values = np.array(found["client"]), np.array(found["leakage"])
            means = [float(values[clients == k].mean()) for k in np.unique(clients)]
            made.append(PaperLeakage(attack, float(np.mean(means)), max(means), _LINE_UPS, _DRAWS))
        return tuple(made)

    return measure
