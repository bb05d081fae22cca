"""A certificate in words: who is right how often, and what must hold for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.protection.protection import Protection
from trilemma.reporting.words.numbers import at_most, bound, count, hundred, number
from trilemma.tuning.families.proof_conditions import unproved

if TYPE_CHECKING:
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.certificate import Certificate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["Proved", "candidate_sets", "clipped", "conditions", "not_proved", "proved", "readings"]

_ENDLESS: Final = 10**6  # a candidate set that stands for all longer ones


@dataclass(frozen=True)
class Proved:
    """What is proved alike for some families, and what each of them must keep."""

    columns: tuple[str, ...]
    candidate_sets: tuple[tuple[str, ...], ...]
    readings: tuple[str, ...]
    conditions: dict[str, dict[str, str]]


def proved(candidates: Sequence[Candidate]) -> tuple[Proved, ...]:
    """The certificates of the candidates; those that say the same stand together."""
    found: dict[tuple[object, ...], Proved] = {}
    for item in candidates:
        proof = item.certificate
        if proof is not None:
            said = (*candidate_sets(proof), readings(proof))
            found.setdefault(said, Proved(*said, {})).conditions[item.name] = conditions(proof)
    return tuple(found.values())


def not_proved(verdict: Verdict) -> str:
    """Why nothing is proved of the leakage against rounds that was measured; "" where it is."""
    if any(item.certified for item in verdict.rounds):
        return ""
    reasons = unproved(verdict.deployment.local_training, verdict.protection or Protection())
    why = " and ".join(reasons) or "what is not covered says why"
    return f"No proof stands above these curves: {why}. For one, tune with --knows anyone."


def clipped(proof: Certificate) -> str:
    """What is clipped, and how far."""
    what = "the whole update" if proof.clips_updates else "each record's gradient"
    return f"{what} clipped to norm {number(proof.record_clip)}"


def candidate_sets(
    proof: Certificate,
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and rows: for each N how often anyone is right at most, and 1/N.

    Where the attacker does not know which rounds used the record, also what it reaches if it does.
    """
    known = {} if proof.participation == "known" else proof.known or {}
    columns = ("candidates", "right in at most", *(["rounds known"] if known else []), "guessing")
    rows = (
        (f"{size:,}", at_most(rate), *([at_most(known[size])] if known else []), hundred(1 / size))
        for size, rate in sorted(proof.success.items())
    )
    return columns, tuple(rows)


def readings(proof: Certificate) -> tuple[str, ...]:
    """What the numbers say beyond the candidate sets."""
    most = f"the leakage is at most {bound(proof.leakage)}"
    where = f"at N = {proof.worst_candidates:,}"
    if proof.worst_candidates >= _ENDLESS:
        where = "by ever longer ones"
    reach = f"Whatever the length of the candidate set, {most}, reached {where}."
    if proof.candidates is not None:
        reach = f"For a candidate set of {proof.candidates:,}, {most}; longer ones may leak more."
    epsilon, delta = bound(proof.epsilon), number(proof.delta)
    member = (
        f"Someone who names the records that were used, and wrongly names 1 % of those that were "
        f"not, finds at most {at_most(proof.true_positive_rate)} of those that were."
    )
    return reach, f"In the words of differential privacy: ε = {epsilon} at δ = {delta}.", member


def conditions(proof: Certificate) -> dict[str, str]:
    """What the proof rests on, to be kept by whoever deploys."""
    drawn = "each round draws the record by chance, and the attacker does not know when"
    if proof.participation == "known":
        drawn = "the attacker knows which rounds used the record"
    helped = "no client helps the attacker"
    if proof.helpers:
        helped = f"{count(proof.helpers, 'client')} may help the attacker"
    hidden = "one record of a person"
    if proof.level == "client":
        hidden = "all records of a client"
    elif proof.person > 1:
        hidden = f"up to {count(proof.person, 'record')} of a person"
    honest = count(proof.survivors, "honest client")
    falling = ", falling to zero" if proof.server_decay else ""
    found = {
        "noise": f"variance {number(proof.variance)} by each client, {clipped(proof)}",
        "noise multiplier": f"{number(proof.noise_multiplier)}, counting {honest}; {helped}",
        "training": f"{count(proof.rounds, 'round')}, server step {number(proof.server_lr)}"
        f"{falling}",
        "sampling": f"a round holds a record at a rate of {number(proof.sampling_rate)}; {drawn}",
        "hides": hidden,
    }
    if proof.remainder:
        found["fixed point"] = f"leaves {number(proof.remainder)} unproved, added to every rate"
    if proof.chosen_on:
        found["chosen on"] = (
            f"{count(proof.chosen_on, 'public record')}; accuracy is that on "
            f"{proof.reported_on:,} others"
        )
    return found
