"""What another adversary picks at what was chosen: measured, not tuned for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.tuning.proof.attacks_on_proof import measured_beside
from trilemma.tuning.results.verdict import Beside

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["BESIDE_GAMES", "beside"]

BESIDE_GAMES: Final = 16


def beside(plan: Plan, chosen: Candidate | None) -> Procedure[tuple[Beside, ...]]:
    """What the other adversary picks at what was chosen; beside a proof, who knows the most."""
    if chosen is not None and chosen.certificate is not None:
        return (yield from measured_beside(plan, chosen))
    if chosen is None or plan.setting.clients < 2:
        return ()
    protection = parse_protection(chosen.protection or "none")
    server = plan.request.adversary is Adversary.SERVER
    other = Adversary.CLIENT if server else Adversary.SERVER
    who = "a curious client" if server else "the server"

    reads = protection.transport.server_reads
    if other is Adversary.SERVER and reads == "nothing":
        return (Beside(who, "the server reads nothing; this rests on the key."),)
    counts = yield from plan.gauge().count(
        "beside", protection, BESIDE_GAMES, attacks=(plan.suite.lead,), adversary=other
    )
    found = Beside(
        who,
        f"{plan.suite.lead} picks the right record in {counts.successes} of {counts.units} "
        f"games (measured, not tuned for)",
        plan.leakage(counts.successes, counts.units),
        counts.units,
        counts.successes,
    )
    return (found,)
