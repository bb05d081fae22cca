"""A certificate in words: who is right how often, and what must hold for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trilemma.reporting.words.numbers import count, hundred, number, percent

if TYPE_CHECKING:
    from trilemma.tuning.certificate.certificate import Certificate
    from trilemma.tuning.results.candidates import Candidate

__all__ = ["certified", "conditions", "line_ups", "readings"]


def certified(candidates: Sequence[Candidate]) -> tuple[tuple[Candidate, Certificate], ...]:
    """The candidates that hold a certificate, with it."""
    return tuple((each, each.certificate) for each in candidates if each.certificate is not None)


def line_ups(proof: Certificate) -> tuple[tuple[str, str, str], ...]:
    """For each length of the line-up: N, how often anyone is right at most, and a blind guess."""
    return tuple(
        (f"{size:,}", hundred(rate), hundred(1 / size))
        for size, rate in sorted(proof.success.items())
    )


def readings(proof: Certificate) -> tuple[str, ...]:
    """What the numbers say beyond the line-ups."""
    return (
        (
            f"Whatever the length of the line-up, the leakage is at most {number(proof.leakage)} "
            f"(the largest is at N = {proof.worst_line_up:,})."
        ),
        (
            f"In the words of differential privacy: ε = {number(proof.epsilon)} at δ = "
            f"{number(proof.delta)}."
        ),
        (
            f"Whoever says of records that they were used, and is wrong for 1 % of those that "
            f"were not, finds at most {percent(proof.true_positive_rate)} of those that were."
        ),
    )


def conditions(proof: Certificate) -> tuple[tuple[str, str], ...]:
    """What the proof rests on, to be kept by whoever deploys."""
    drawn = "each round draws the record by chance, and nobody is told when"
    if proof.participation == "known":
        drawn = "the attacker is told which rounds held the record"
    if proof.level == "client":
        clipped = f"the whole update of a client is clipped to norm {number(proof.record_clip)}"
    else:
        clipped = f"each record's gradient is clipped to norm {number(proof.record_clip)}"
    helped = "no client helps the attacker"
    if proof.helpers:
        helped = f"{count(proof.helpers, 'client')} may help the attacker"
    held = "one record" if proof.person == 1 else f"up to {count(proof.person, 'record')}"
    return (
        ("noise", f"variance {number(proof.variance)} by each client; {clipped}"),
        (
            "noise over influence",
            (
                f"{number(proof.noise_multiplier)}, counting {proof.survivors} honest clients; "
                f"{helped}"
            ),
        ),
        ("training", f"{count(proof.rounds, 'round')}, server step {number(proof.server_lr)}"),
        ("sampling", f"a share of {number(proof.sampling_rate)} of a client's records; {drawn}"),
        ("protects", f"{held} of a person"),
    )
