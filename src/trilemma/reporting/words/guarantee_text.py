"""A guarantee in sentences: who attacks, how often it succeeds at most, what has to hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.accounting.noise_calibration import success_bound
from trilemma.reporting.words.numbers import at_most, bound, number
from trilemma.reporting.words.terminal import Printer
from trilemma.tuning.proof.success_sentence import singled_out

if TYPE_CHECKING:
    from trilemma.accounting.guarantee import Guarantee

__all__ = ["conditions", "headline", "show_guarantee"]

_SIZE: Final = 100  # of the candidate set that is quoted
_FINE: Final = 5  # digits of noise, so that rounding up adds none


def headline(guarantee: Guarantee) -> str:
    """Who attacks, knowing what, over how many rounds, and how often it succeeds at most."""
    training = guarantee.training
    return singled_out(
        guarantee.level,
        _SIZE,
        guarantee.success[_SIZE],
        rounds=training.rounds,
        helpers=0 if guarantee.transport == "plain" else guarantee.helpers,
        secret=training.participation == "secret",
        client=False,
    )


def conditions(guarantee: Guarantee) -> tuple[str, ...]:
    """What a deployment has to keep to."""
    training, whole = guarantee.training, guarantee.level == "client"
    clipped = (
        "Each client's whole update is clipped"
        if whole
        else "Each record's gradient is clipped before the sum; one that is not finite counts as 0"
    )
    sampling = (
        "Every round uses all records, and the denominator is a constant that was agreed on"
        if training.q == 1
        else "Each record is drawn by itself with the system's generator; the denominator is a "
        "constant, and an empty batch still sends noise"
    )
    counted = (
        "Each client adds its noise itself"
        if guarantee.transport == "plain"
        else f"A round ends with {guarantee.threshold} of {guarantee.clients} clients or more, of "
        f"whom {guarantee.helpers} at most help the attacker: {guarantee.honest} honest noises "
        "count"
    )
    memory = "Clients keep no momentum and no statistics of records from round to round"
    repeated = f"A repeated round counts as a round; there are {training.rounds:,} at most"
    nothing = "Nothing else that depends on records leaves a client: no counts, losses or metrics"
    lines = [f"{clipped}.", f"{counted}.", f"{repeated}.", f"{nothing}."]
    if not whole:
        lines[1:1] = [f"{sampling}.", f"{memory}."]
        if training.participation == "secret":
            once = success_bound(replace(training, rounds=1), _SIZE)
            lines.append(
                f"Each client takes part in all {training.rounds:,} rounds: fewer of them hide "
                "worse which used a record. Of one that is used by a client that takes part in a "
                f"single round, the {_SIZE} candidates give {at_most(once)}."
            )
        records = training.records_of_person
        lines.append(
            f"One person has {records} record{'s' * (records > 1)} at most; with one more, the "
            f"100 candidates give {at_most(guarantee.person_of_one_more)}."
        )
    if guarantee.transport != "plain":
        lines.append(
            f"The server runs {guarantee.transport} as prescribed, or clients have pinned each "
            "other's identities; messages keep within the transport's range, on a grid finer than "
            "the noise (`trilemma tune` sets both, and adds about 0.1 % of noise for rounding)."
        )
    lines.append("With uneven odds, take N = 1 / (the largest of them).")
    return tuple(lines)


def show_guarantee(guarantee: Guarantee) -> None:
    """Print the guarantee, the noise that it needs, and its conditions."""
    training, out = guarantee.training, Printer()
    out.text(headline(guarantee))
    out.title("Noise")
    kind = "sum of its clipped gradients" if guarantee.level == "record" else "clipped update"
    own = bound(guarantee.noise_per_client, _FINE)
    out.facts(
        [
            ("multiplier z", bound(training.noise_multiplier, _FINE)),
            ("per client", f"{own} × the clip, on the {kind}"),
            ("rounds", f"{training.rounds:,}; {_drawn(guarantee)}"),
        ]
    )
    out.title("Proved, whatever else the attacker knows and whatever weights the server sends")
    rows = [
        (f"guess the target among {size:,}", at_most(rate), f"{100 / size:.3g} of 100")
        for size, rate in guarantee.success.items()
    ]
    if guarantee.level == "record":
        rows.append(("decide if a record was used", at_most(guarantee.decision), "50 of 100"))
    out.table(("", "at most", "blind"), rows, gap=2)
    out.note(
        f"Leakage {bound(guarantee.leakage)} at most, for every N (budget "
        f"{number(guarantee.budget)}; the worst is N = {guarantee.worst_candidates:,}). "
        f"(ε, δ) = ({bound(guarantee.epsilon)}, {guarantee.delta:g})."
    )
    if guarantee.by_rounds:
        out.title("The same budget for other numbers of rounds")
        out.table(
            ("rounds", "z", "per client, × the clip"),
            [
                (f"{row.rounds:,}", *(bound(value, _FINE) for value in noises))
                for row in guarantee.by_rounds
                for noises in [(row.noise_multiplier, row.noise_per_client)]
            ],
            gap=2,
        )
    out.title("It holds as long as")
    out.bullets(conditions(guarantee))


def _drawn(guarantee: Guarantee) -> str:
    training = guarantee.training
    if guarantee.level == "client":
        return "a whole client is hidden, whatever its batches"
    if training.q == 1:
        return "each uses all records"
    who = "not known to the attacker" if training.participation == "secret" else "known"
    return f"each uses a record with probability {number(training.q)}; which ones is {who}"
