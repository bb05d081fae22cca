"""A proof's headline and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.tuning.certificate.conditions import KEPT

if TYPE_CHECKING:
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.certificate import Certificate

__all__ = ["proved_headline", "proved_limits"]

_SIZE = 100  # of the line-up that is quoted where all are claimed


def proved_headline(proof: Certificate | None, request: Request) -> str:
    """Who picks what, over which rounds: nobody.

    "Nobody, whatever they know, picks the right one of 100 records in more than 17 of 100 cases."
    """
    if proof is None:
        return f"Nobody, whatever they know, is to leak more than {request.budget:g}: not proved."
    size = _SIZE if proof.line_up is None else proof.line_up
    told = "told" if proof.participation == "known" else "not told"
    over = f"over {proof.rounds} rounds, {told} which of them held the record"
    if proof.rounds == 1 and proof.sampling_rate == 1:
        over = "from one round that is known to hold the record"
    every = f", and at no number of records leaks more than {request.budget:g}"
    cases = f"{100 * proof.success[size]:.2g} of 100 cases (a blind guess: {100 / size:.2g})"
    return (
        f"Nobody, whatever they know, picks the right one of {size:,} records {over}, in more "
        f"than {cases}{every if proof.line_up is None else ''}. This is proved."
    )


def proved_limits(proof: Certificate, transport: str) -> tuple[str, ...]:
    """What the proof does not cover, in sentences."""
    sentences = []
    if proof.survivors > 1:
        others = (
            f"more than {proof.helpers} clients that help"
            if proof.helpers
            else "clients that help"
        )
        sentences.append(
            f"Whoever sees more than sums: a server that does not run {transport} as prescribed, "
            f"or {others} the attacker; the noise of {proof.survivors} honest clients is counted "
            "in every sum."
        )
    if proof.rounds == 1:
        sentences.append("Several rounds: whoever combines their updates learns more.")
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
        "The trainings that chose clip and server step, which used the clients' records.",
    )
