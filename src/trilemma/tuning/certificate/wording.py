"""A proof's headline and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.tuning.certificate.conditions import KEPT

if TYPE_CHECKING:
    from trilemma.tuning.certificate.certificate import Certificate
    from trilemma.tuning.request import Request

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
    """What the proof rests on and does not cover, in sentences."""
    seen = "Every single message may be seen, and the server may send any model."
    if proof.survivors > 1:
        helped = "none of them helps the attacker"
        if proof.helpers:
            helped = f"besides them {proof.helpers} may help the attacker"
        seen = (
            f"Only sums are seen, which rests on {transport} and a server that runs it as "
            f"prescribed; the noise of {proof.survivors} honest clients is counted in each, and "
            f"{helped}."
        )
    sentences = [seen]
    if proof.rounds == 1:
        sentences += ["One round: whoever combines the updates of several rounds learns more."]
    hidden = "one record" if proof.person == 1 else f"{proof.person} records"
    if proof.level == "client":
        hidden = "all records of a client, and so those"
    private = (
        f"In the words of differential privacy ε is {proof.epsilon:.3g} at δ = {proof.delta:g}, "
        f"and a membership test that is wrong for 1 % of the others finds at most "
        f"{100 * proof.true_positive_rate:.2g} % of the members."
    )
    return (
        *sentences,
        *KEPT,
        f"It hides {hidden} of a person, where all candidates are equally likely beforehand.",
        private,
        "The trainings that chose clip and step used the clients' records: they are not covered.",
    )
