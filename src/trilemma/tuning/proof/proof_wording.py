"""A proof's headline and its limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trilemma.observations import Adversary
from trilemma.quantities import cases_at_most
from trilemma.tuning.families.proof_conditions import KEPT

if TYPE_CHECKING:
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.certificate import Certificate

__all__ = ["proved_headline", "proved_limits"]

_SIZE = 100  # of the candidate set that is quoted where all are claimed
_FEW = 5  # cases of 100 above which they are counted whole


def proved_headline(proof: Certificate | None, request: Request, transport: str) -> str:
    """Who attacks, knowing what, over how many rounds, and how often it succeeds at most.

    "Someone who holds 100 equally likely records, sees all 150 rounds and is helped by one client
    singles the right one out in at most 17 of 100 attempts; guessing gives 1. Proved."
    """
    if proof is None:
        return f"A proof that the leakage is at most {request.budget:g} for every attacker: none."
    size = _SIZE if proof.candidates is None else proof.candidates
    seen = "the round" if proof.rounds == 1 else f"all {proof.rounds:,} rounds"
    who = "Someone who"
    if request.adversary is Adversary.CLIENT:  # of messages it sees none
        who, seen = "A client that", f"only the means of {seen}"
    does = [f"holds {size:,} equally likely {proof.level}s", f"sees {seen}"]
    if proof.participation == "secret":
        does.append("does not know which of them used the record")
    if proof.helpers and transport != "plain":
        does.append(f"is helped by {_clients(proof.helpers)}")
    cases = cases_at_most(proof.success[size])
    return (
        f"{who} {', '.join(does[:-1])} and {does[-1]} singles the right one out in at most "
        f"{math.ceil(cases) if cases > _FEW else cases:.3g} of 100 attempts; guessing gives "
        f"{100 / size:.2g}. Proved."
    )


def _clients(number: int) -> str:
    return "one client" if number == 1 else f"{number} clients"


def proved_limits(
    proof: Certificate, transport: str, adversary: Adversary = Adversary.SERVER
) -> tuple[str, ...]:
    """What the proof does not cover, in sentences."""
    sentences = []
    if adversary is Adversary.CLIENT:
        sentences.append("The server. It sees more than a client does: tune against it.")
    if proof.survivors > 1:
        helped = f"more than {_clients(proof.helpers)}" if proof.helpers else "any client"
        sentences.append(
            f"A server that is helped by {helped}, or departs from {transport}. It sees more than "
            f"sums, and the noise of {proof.survivors} honest clients is counted in every sum."
        )
    if proof.rounds == 1:
        sentences.append("Several rounds. An attacker who combines their updates learns more.")
    if proof.participation == "secret":
        sentences.append(
            "Clients that take part in fewer rounds. The fewer there are, the worse they hide "
            "which of them used a record."
        )
    if proof.level == "client":
        sentences.append("A person who is behind several clients.")
    else:
        most = "one record" if proof.person == 1 else f"{proof.person} records"
        sentences.append(f"A person with more than {most}.")
    sentences.append(
        "Attackers who find one candidate likelier beforehand. Then take N = 1 / its probability."
    )
    return (
        *sentences,
        *KEPT,
        "Other figures than the proof: accuracies, games, ranks. They used the clients' records.",
    )
