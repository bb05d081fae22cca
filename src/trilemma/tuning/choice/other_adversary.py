"""How often another adversary guesses right at what was chosen: measured, not tuned for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.attacks.crafted import IMPRINT, hidden_linear
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.suite import why_not
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.proof.attacks_on_proof import crafted_beside
from trilemma.tuning.results.verdict import Beside

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.protection.protection import Protection
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["BESIDE_GAMES", "beside", "craftable"]

BESIDE_GAMES: Final = 16


def beside(plan: Plan, chosen: Candidate | None) -> Procedure[tuple[Beside, ...]]:
    """How often another adversary guesses right; of what is proved, a malicious server."""
    if chosen is not None and chosen.certificate is not None:
        return (yield from crafted_beside(plan, chosen))
    if chosen is None or plan.setting.clients < 2:
        return ()
    protection = parse_protection(chosen.protection or "none")
    server = plan.request.adversary is Adversary.SERVER
    other = Adversary.CLIENT if server else Adversary.SERVER
    who = "a curious client" if server else "the server"

    reads = protection.transport.server_reads
    if other is Adversary.SERVER and reads == "nothing":
        return (Beside(who, "the server reads nothing; this rests on the key."),)
    counts = yield from plan.calibrator().count(
        "beside", protection, BESIDE_GAMES, attacks=(plan.suite.lead,), adversary=other
    )
    other_one = Beside(
        who,
        f"{plan.suite.lead} guesses the right record in {counts.successes} of {counts.units} "
        f"games (measured, not tuned for)",
        plan.leakage(counts.successes, counts.units),
        counts.units,
        counts.successes,
    )
    return (other_one, *(yield from _crafted(plan, protection)))


def _crafted(plan: Plan, protection: Protection) -> Procedure[tuple[Beside, ...]]:
    """What reads records off a single round at a crafted model, beside what was measured."""
    curious = plan.request.server == "curious" and plan.request.adversary is Adversary.SERVER
    if not curious or protection.transport.server_reads == "nothing" or not craftable(plan):
        return ()
    job = AttackJob(
        *("crafted", protection.describe(), ("analytic",), Adversary.SERVER, 1, 0, BESIDE_GAMES),
        crafted=IMPRINT,
    )
    seen = yield from played(job, BESIDE_GAMES)
    won = int(seen.correct["analytic"].sum())
    statement = (
        f"analytic guesses the right record in {won} of {job.count} games of one round, if the "
        f"server sends a model that it crafted ({job.crafted}); --server malicious tunes for it"
    )
    who = "a malicious server"
    return (Beside(who, statement, plan.leakage(won, job.count), job.count, won),)


def craftable(plan: Plan) -> bool:
    """Whether a hidden layer of the model can be made to show the records that it reads."""
    scenario = plan.scenario
    return hidden_linear(scenario.task.model) is not None and why_not(scenario, "analytic") is None
