"""A proof's headline and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.observations import Adversary
from trilemma.quantities import cases_at_most
from trilemma.tuning.families.proof_conditions import KEPT

if TYPE_CHECKING:
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.certificate import Certificate

__all__ = ["proved_headline", "proved_limits"]

_SIZE = 100  # of the candidate set that is quoted where all are claimed


def proved_headline(proof: Certificate | None, request: Request, transport: str) -> str:
    """Who attacks, knowing what, over how many rounds, and how often it succeeds at most.

    "An attacker who starts with 100 equally likely records, sees all 150 rounds and is helped by
    at most one client, guesses the right one in at most 17 of 100 attempts."
    """
    if proof is None:
        return f"A proof that the leakage is at most {request.budget:g} for every attacker: none."
    size = _SIZE if proof.candidates is None else proof.candidates
    one = proof.level
    seen = "sees the round" if proof.rounds == 1 else f"sees all {proof.rounds:,} rounds"
    who = "An attacker who"
    if request.adversary is Adversary.CLIENT:  # of messages it sees none
        who, seen = "A client who", seen.replace("sees", "sees the means alone of")
    if proof.participation == "secret":
        seen += " but not which of them used a record"
    helped = ""
    if proof.helpers and transport != "plain":
        many = "one client" if proof.helpers == 1 else f"{proof.helpers} clients"
        helped = f" and is helped by at most {many}"
    return (
        f"{who} starts with {size:,} equally likely {one}s, {seen}{helped}, guesses the right one "
        f"in at most {cases_at_most(proof.success[size]):.3g} of 100 attempts; blind guessing "
        f"gives {100 / size:.2g}. Proved."
    )


def proved_limits(
    proof: Certificate, transport: str, adversary: Adversary = Adversary.SERVER
) -> tuple[str, ...]:
    """What the proof does not cover, in sentences."""
    sentences = []
    if adversary is Adversary.CLIENT:
        sentences.append("The server, which sees more than a client does: tune against it.")
    if proof.survivors > 1:
        others = (
            f"more than {proof.helpers} clients that help"
            if proof.helpers
            else "clients that help"
        )
        sentences.append(
            f"An attacker who sees more than sums: a server that does not run {transport} as "
            f"prescribed, or {others} the attacker; the noise of {proof.survivors} honest "
            "clients is counted in every sum."
        )
    if proof.rounds == 1:
        sentences.append("Several rounds: an attacker who combines their updates learns more.")
    hidden = "More than one record" if proof.person == 1 else f"More than {proof.person} records"
    if proof.level == "client":
        hidden = "More than one client"
    sentences.append(f"{hidden} of one person.")
    sentences.append(
        "Candidates that are not equally likely beforehand: of these the likeliest counts, with "
        "prior probability 1/N."
    )
    return (
        *sentences,
        *KEPT,
        "The figures beside the proof, which used the clients' records: accuracies, games, ranks.",
    )
