"""A verdict for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from trilemma.reporting.words.answer import (
    answer,
    earlier_tests,
    final_tests,
    not_needed,
    paper_leakage,
    verdict_metric,
)
from trilemma.reporting.words.numbers import (
    count,
    hundred,
    interval,
    listed,
    metric,
    number,
    slower,
)
from trilemma.reporting.words.proof_text import proved
from trilemma.reporting.words.protection_text import family, short_spec, strength
from trilemma.reporting.words.terminal import Printer, short
from trilemma.reporting.words.trade_off_text import attacked_text

if TYPE_CHECKING:
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["show_verdict"]


def show_verdict(verdict: Verdict) -> None:
    """Who is held off, what to use, what it costs, the tests, what is not covered."""
    out = Printer()
    out.text(_federation(verdict))
    out.title(answer(verdict).headline)
    out.title("Verdict")
    out.facts(_choice(verdict))
    _show_tests(out, verdict)
    for item in proved(verdict.candidates):
        out.title(f"Proved against anyone: {listed([family(name) for name in item.conditions])}")
        columns = ("candidates", "right at most", "told the rounds", "blind guess")
        out.table(columns, item.candidate_sets, gap=2)
        for sentence in item.readings:
            out.note(sentence)
    _show_candidates(out, verdict)
    out.title("Not covered")
    out.bullets(verdict.limits)


def _federation(verdict: Verdict) -> str:
    there = verdict.federation
    return (
        f"{there.scenario}: {count(there.clients, 'client')}, "
        f"{count(there.records_per_update, 'record')} an update "
        f"({verdict.deployment.local_training.algorithm}), "
        f"{count(there.parameters, 'parameter')}; seed {verdict.request.seed}"
    )


def _choice(verdict: Verdict) -> Iterator[tuple[str, str]]:
    first, chosen = answer(verdict), verdict.choice
    if chosen is None:
        yield "use", "nothing was shown to keep the budget"
        yield "asked for", verdict.headline
        yield "what helps", verdict.advice
    else:
        yield "use", first.use.removeprefix("Use ").rstrip(".")
        if chosen.protection not in (None, "none"):
            spec = short_spec(chosen.protection or "")
            yield "spec", spec.replace(",", ", ").replace("+", " + ")
        yield "rests on", f"{verdict.basis}: {first.proof}"
    for card in (first.leaks, *first.costs):
        reading = f"{card.figure[:1].upper()}{card.figure[1:]}. {card.reading}"
        yield card.title.lower(), reading.rstrip()
    tied = [family(item.name) for item in verdict.candidates if item.tied]
    if tied:
        yield "tied with", ", ".join(tied)
    if verdict.trade_off is not None:
        yield "attacked", attacked_text(verdict.trade_off)
    for item in verdict.beside:
        leak = "" if item.leakage is None else f"; leakage {interval(item.leakage)}"
        yield "beside", f"{item.who}: {item.statement.rstrip('.')}{leak}"


def _show_tests(out: Printer, verdict: Verdict) -> None:
    chosen = verdict.choice
    tests = () if chosen is None else final_tests(chosen)
    if chosen is None or not tests:
        return
    allowed, blind = hundred(verdict.largest_success_rate), hundred(verdict.claim.kappa)
    out.title(f"Tests by fresh games (allowed: {allowed}, blind guess: {blind})")
    known = {attack.name: attack for attack in verdict.attacks}
    rows = []
    for test in tests:
        used = known.get(test.attack)
        bare = f"{used.control_recovered} of {used.control_units}" if used else "–"
        passed = "yes" if test.passed else "NO"
        rows.append((test.attack, f"{test.recovered} of {test.units}", passed, bare))
    out.table(("attack", "right guesses", "passed", "unprotected round"), rows, gap=2)
    out.note(earlier_tests(chosen))
    out.note(paper_leakage(verdict))


def _show_candidates(out: Printer, verdict: Verdict) -> None:
    out.title("All candidates, the least cost first")
    shown = verdict_metric(verdict)
    rows = []
    for item in verdict.candidates:
        costs, found = item.costs, "–"
        if item.leakage or costs:
            found = short(strength(item.name, item.strength))
        rows.append(
            (
                "-" if item.rank is None else f"{item.rank}{'=' if item.tied else ''}",
                family(item.name),
                found,
                _leaks(item),
                "–" if costs is None else metric(costs.protected_metric, shown),
                "–" if costs is None else slower(costs.efficiency_reduction.value),
            )
        )
    out.table(
        ("#", "family", "strength", "leakage", shown.replace("minus the ", "-"), "round"), rows
    )
    for statement, names in _statements(verdict).items():
        out.note(Text.assemble((", ".join(names), "bold"), f": {statement}"))


def _leaks(each: Candidate) -> str:
    if each.certificate is not None:
        return f"at most {number(each.certificate.leakage)}"
    if each.leakage is not None:
        return f"{each.leakage.value:.2f} [{each.leakage.low:.2f}, {each.leakage.high:.2f}]"
    if each.basis == "cryptographic":
        return "key"
    if each.smallest_leakage is not None:
        return f"not below {each.smallest_leakage:.2f}"
    return "–"


def _statements(verdict: Verdict) -> dict[str, list[str]]:
    """Why candidates cannot be chosen, or need not be, each sentence once."""
    found: dict[str, list[str]] = {}
    for item in verdict.candidates:
        spare = not_needed(verdict, item)
        if spare or item.rank is None:
            found.setdefault(spare or item.statement, []).append(family(item.name))
    return found
