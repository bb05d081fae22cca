"""A proof's headline and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.observations import Adversary
from trilemma.tuning.families.proof_conditions import KEPT
from trilemma.tuning.proof.success_sentence import in_clients, singled_out

if TYPE_CHECKING:
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.certificate import Certificate

__all__ = ["proved_headline", "proved_limits"]

_SIZE = 100  # of the candidate set that is quoted where all are claimed


def proved_headline(proof: Certificate | None, request: Request, transport: str) -> str:
    """Who attacks, knowing what, over how many rounds, and how often it succeeds at most.

    "Someone who holds 100 equally likely records, sees all 150 rounds and is helped by one client
    singles the right one out in at most 17 of 100 attempts; guessing gives 1. Proved."
    """
    if proof is None:
        return f"A proof that the leakage is at most {request.budget:g} for every attacker: none."
    size = _SIZE if proof.candidates is None else proof.candidates
    return singled_out(
        proof.level,
        size,
        proof.success[size],
        rounds=proof.rounds,
        helpers=0 if transport == "plain" else proof.helpers,
        secret=proof.participation == "secret",
        client=request.adversary is Adversary.CLIENT,
    )


def proved_limits(
    proof: Certificate, transport: str, adversary: Adversary = Adversary.SERVER
) -> tuple[str, ...]:
    """What the proof does not cover, in sentences."""
    sentences = []
    if adversary is Adversary.CLIENT:
        sentences.append("The server. It sees more than a client does: tune against it.")
    if proof.survivors > 1:
        helped = f"more than {in_clients(proof.helpers)}" if proof.helpers else "any client"
        protocol = transport.replace("-", " ")
        sentences.append(
            f"A server that is helped by {helped}, or departs from {protocol}. It sees more than "
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
