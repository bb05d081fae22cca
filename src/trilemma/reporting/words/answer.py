"""A verdict's answer in sentences: what the page begins with and what a terminal prints."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from trilemma.observations import Adversary
from trilemma.reporting.words.budgets import one_in
from trilemma.reporting.words.numbers import (
    bits,
    count,
    hundred,
    lost,
    metric,
    multiple,
    number,
    percent,
)
from trilemma.reporting.words.protection_text import family
from trilemma.reporting.words.trade_off_text import attacked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilemma.tuning.calibration.outcomes import Tested
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.verdict import Verdict

__all__ = [
    "Answer",
    "answer",
    "cost_facts",
    "earlier_tests",
    "final_tests",
    "metric_name",
    "not_needed",
    "summary",
    "verdict_metric",
    "who",
]

Kind = Literal["measured", "certified", "cryptographic", "warning", "nothing"]
_BADGES: Final = {
    "measured": "tested, not proved",
    "certified": "proved",
    "cryptographic": "rests on the key",
    "nothing": "no protection found",
}
_SIZE: Final = 100  # of the candidate set that is quoted where a proof holds for all
_LINES: Final = 23  # of a summary: with the paths of two files a terminal shows 25
_WIDTH: Final = 80
_LABEL: Final = 13


@dataclass(frozen=True)
class Answer:
    """What was asked, answered: a headline, facts by name, and what is not covered.

    `badge` says in a few words what it rests on; `kind` is "warning" where a reader must not rely
    on it as it stands. `not_covered` has the first sentence of each limit.
    """

    kind: Kind
    badge: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    not_covered: tuple[str, ...]


def answer(verdict: Verdict) -> Answer:
    """The answer of a verdict."""
    chosen = verdict.choice
    kind: Kind = "nothing" if chosen is None else chosen.basis
    lead, said, badge = *_headline(verdict, kind), _BADGES[kind]
    if warning := next(_warnings(verdict, chosen), ""):
        kind, lead, badge = "warning", f"{lead}, but {warning}", f"{badge}; {warning}"
    return Answer(
        kind=kind,
        badge=badge,
        headline=f"{lead}: {said}",
        facts=tuple(_facts(verdict, chosen)),
        not_covered=tuple(re.split(r"(?<=\.) (?=[A-Z`])", item)[0] for item in verdict.limits),
    )


def summary(verdict: Verdict) -> str:
    """The answer as text: at most 23 lines of 80 columns."""
    first = answer(verdict)
    lines = [*textwrap.wrap(first.headline, _WIDTH), ""]
    facts = (*first.facts, ("not covered", " ".join(first.not_covered)))
    wide = max(_LABEL, 2 + max(len(name) for name, _ in facts))
    for name, said in facts:
        lines += textwrap.wrap(
            said,
            _WIDTH,
            initial_indent=f"{name[:1].upper()}{name[1:]}".ljust(wide),
            subsequent_indent=" " * wide,
            break_on_hyphens=False,
        )
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], " " * wide + "[more: report.html, or --full]"]
    return "\n".join(lines)


def _headline(verdict: Verdict, kind: Kind) -> tuple[str, str]:
    """The answer in a few words, and what it says in full."""
    said = f"{verdict.headline[:1].lower()}{verdict.headline[1:]}"
    if kind == "certified":
        return "Yes, within the limit you set", said
    if kind == "measured":
        return "Tested, not proved, within the limit you set", said
    if kind == "cryptographic":
        return (
            f"Yes, while {who(verdict.request)} does not hold the key",
            "it reads ciphertexts alone, and learns nothing from them without the key.",
        )
    if any(item.breaks_a_cap for item in verdict.candidates):
        return "No", "some protections keep the limit you set, but none of them keeps your caps."
    tried = count(len(verdict.candidates), "protection")
    return "No", f"of {tried} that were tried, none was shown to keep the limit you set."


def _warnings(verdict: Verdict, chosen: Candidate | None) -> Iterator[str]:
    """Why nobody should rely on the answer as it stands, the gravest reason first."""
    points = () if verdict.trade_off is None else verdict.trade_off.points
    if any(point.crossed for point in points) or any(item.crossed for item in verdict.rounds):
        yield "results contradict one another, so do not rely on it"
    if chosen is None:
        return
    won = [2 * each.control_recovered - each.control_units for each in verdict.attacks]
    if chosen.basis == "measured" and max(won, default=0) < 0:
        yield "the attacks fail without protection, too, so that this says little"
    constant = verdict.federation.baseline
    if chosen.costs and constant is not None and chosen.costs.unprotected_metric <= constant:
        yield "the model learns nothing without protection either"
    worst = chosen.worst_client
    if worst is not None and worst.value > verdict.request.budget:
        yield f"client {chosen.leakiest_client} exceeds it (a leakage of {number(worst.value)})"


def _facts(verdict: Verdict, chosen: Candidate | None) -> Iterator[tuple[str, str]]:
    yield "your limit", _limit(verdict)
    if chosen is None:
        yield "asked for", verdict.headline
        if verdict.advice:
            yield "what helps", verdict.advice
        return
    yield "protection", _use(verdict, chosen)
    if chosen.costs is not None:
        name, costs = verdict_metric(verdict), chosen.costs
        best = costs.best_unprotected_metric
        freest = (
            "" if best is None else f" Best training without protection: {metric(best, name)}."
        )
        yield (
            name,
            (
                f"{metric(costs.unprotected_metric, name)} without protection, "
                f"{metric(costs.protected_metric, name)} with it: "
                f"{lost(costs.utility_loss, name)}.{freest}"
            ),
        )
        sent = costs.protected.bits / max(costs.unprotected.bits, 1)
        yield (
            "cost",
            (
                f"A round takes {multiple(1 + costs.efficiency_reduction.value, 'time')} and "
                f"{multiple(sent, 'bits')}."
            ),
        )
    if said := _attacked(verdict, chosen):
        yield "attacked", said
    yield "to deploy", f"trilemma deploy {verdict.file} --flower app"


def _limit(verdict: Verdict) -> str:
    request, size = verdict.request, verdict.claim.candidates
    proof = None if verdict.choice is None else verdict.choice.certificate
    if proof is not None:
        size = proof.candidates or _SIZE
    every = proof is not None and proof.candidates is None
    less = " The proof keeps it for every size, whatever else is known." if every else ""
    if request.at_most is not None:
        return f"The right record is singled out in at most {one_in(request.at_most)}.{less}"
    allowed = hundred(request.resolved(1 / size)[1])
    return (
        f"At most {allowed} attempts among {size:,} records "
        f"(a leakage of {number(request.budget)}).{less}"
    )


def _use(verdict: Verdict, chosen: Candidate) -> str:
    said, proof = family(chosen.name), chosen.certificate
    if proof is not None:
        what = "each client's update" if proof.clips_updates else "each record's gradient"
        said = f"{said}, with {what} clipped"
    tied = [family(item.name) for item in verdict.candidates if item.tied]
    also = f" About as cheap: {', '.join(tied)}." if tied else ""
    return f"{said[:1].upper()}{said[1:]}.{also}"


def _attacked(verdict: Verdict, chosen: Candidate) -> str:
    """How often the best attack was right, with and without protection."""
    said = []
    if verdict.trade_off is not None:
        said.append(attacked(verdict.trade_off))
    elif chosen.success is not None:
        rate = chosen.success
        said.append(
            f"The best attack was right in {percent(rate.value)} of games (between "
            f"{percent(rate.low)} and {percent(rate.high)})."
        )
    if verdict.attacks:
        best = max(verdict.attacks, key=lambda each: each.control_recovered / each.control_units)
        said.append(
            f"Without protection {best.name} is right in {best.control_recovered} of "
            f"{best.control_units} single rounds."
        )
    return " ".join(said)


def cost_facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What a round and a training cost with the choice and without protection, by name."""
    costs = verdict.choice and verdict.choice.costs
    if not costs:
        return
    slower, plain, shielded = costs.efficiency_reduction, costs.unprotected, costs.protected
    name, constant = verdict_metric(verdict), verdict.federation.baseline
    pairs = f"{costs.seeds} pairs of {count(costs.rounds, 'round')}"
    yield "trainings", f"{pairs}; intervals at {percent(costs.confidence)} confidence"
    if constant is not None:
        yield "constant answer", f"{metric(constant, name)} {name}"
    yield (
        "bits of a round",
        f"{bits(shielded.bits)} a client; without protection {bits(plain.bits)}",
    )
    yield (
        "CPU seconds",
        (
            f"{number(shielded.client_seconds)} a client and {number(shielded.server_seconds)} "
            f"at the server; without protection {number(plain.client_seconds)} and "
            f"{number(plain.server_seconds)}"
        ),
    )
    yield (
        "length of a round",
        (
            f"{number(1 + slower.value)} times as long (between {number(1 + slower.low)} and "
            f"{number(1 + slower.high)}) at {number(costs.bandwidth / 1e6)} Mbit/s"
        ),
    )


def who(request: Request) -> str:
    """The adversary, as the subject of a sentence."""
    return "the server" if request.adversary is Adversary.SERVER else "a curious client"


def metric_name(values: Iterable[float | None], own: str = "") -> str:
    """Accuracy, minus the loss where there are no classes, or a metric of one's `own`.

    >>> metric_name([0.93, None, 0.91]), metric_name([-0.4])
    ('accuracy', 'minus the loss')
    """
    if own:
        return own
    inside = all(value is None or 0 <= value <= 1 for value in values)
    return "accuracy" if inside else "minus the loss"


def verdict_metric(verdict: Verdict) -> str:
    """What a verdict's trainings are measured by."""
    values = (item.costs.protected_metric for item in verdict.candidates if item.costs)
    return metric_name(values, verdict.federation.metric)


def final_tests(candidate: Candidate) -> tuple[Tested, ...]:
    """The tests at the strength found."""
    return tuple(test for test in candidate.tests if test.strength == candidate.strength)


def earlier_tests(candidate: Candidate) -> str:
    """The tests that failed on the way, in one sentence; empty where none did."""
    failed = [
        f"{test.attack} guessed right in {test.recovered} of {test.units} games at "
        f"{candidate.symbol or 'strength'} {number(test.strength)}"
        for test in candidate.tests
        if not test.passed
    ]
    return f"Failed on the way, so that the search went on: {'; '.join(failed)}." if failed else ""


def not_needed(verdict: Verdict, candidate: Candidate) -> str:
    """That what noise is added to would do alone, where it was shown to; else nothing."""
    inside = candidate.name.partition("randomization+")[2]
    alone = [item for item in verdict.candidates if item.name == inside and item.feasible]
    if not inside or not alone or alone[0].basis == "cryptographic":
        return ""
    return f"{family(inside).capitalize()} is within the limit, so that noise adds nothing asked."
