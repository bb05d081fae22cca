"""A verdict for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilemma.reporting.words.answer import (
    answer,
    earlier_tests,
    final_tests,
    metric_name,
    not_needed,
)
from trilemma.reporting.words.certificate import certified, line_ups, readings
from trilemma.reporting.words.ladder import RUNGS, ladder, next_rung
from trilemma.reporting.words.numbers import count, hundred, interval, metric, number, slower
from trilemma.reporting.words.protections import family, short_spec, strength

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilemma.tuning.results.candidates import Candidate
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.tuning.surrogate.promises import Promise

__all__ = ["show_verdict"]

_WIDTH: Final = 80


def show_verdict(verdict: Verdict) -> None:
    """Who is held off, what to use, what it costs, the tests, the ladder, what is not covered."""
    console = Console(highlight=False, soft_wrap=False, file=sys.stdout)
    console.width = min(console.width, _WIDTH)
    console.print(Text(_federation(verdict)))
    console.print(Text(f"\n{answer(verdict).headline}", style="bold"))
    _show_choice(console, verdict)
    _show_tests(console, verdict)
    _show_ladder(console, verdict)
    _show_certificates(console, verdict)
    _show_candidates(console, verdict)
    _show_promises(console, verdict)
    _title(console, "Not covered")
    for sentence in verdict.limits:
        _bullet(console, sentence)


def _federation(verdict: Verdict) -> str:
    there = verdict.federation
    return (
        f"{there.scenario}: {count(there.clients, 'client')}, "
        f"{count(there.records_per_update, 'record')} an update "
        f"({verdict.deployment.local_training.algorithm}), "
        f"{count(there.parameters, 'parameter')}; seed {verdict.request.seed}"
    )


def _show_choice(console: Console, verdict: Verdict) -> None:
    first, chosen = answer(verdict), verdict.choice
    _title(console, "Verdict")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row("use", Text(first.use.removeprefix("Use ").rstrip("."), style="bold"))
    if chosen is not None and chosen.protection not in (None, "none"):
        grid.add_row("spec", Text(short_spec(chosen.protection or ""), overflow="fold"))
    if chosen is None:
        grid.add_row("asked for", Text(verdict.headline))
        grid.add_row("what helps", Text(verdict.advice))
    else:
        grid.add_row("rests on", Text(f"{verdict.basis}: {first.proof}"))
    for card in (first.leaks, *first.costs):
        reading = f"{card.figure[:1].upper()}{card.figure[1:]}. {card.reading}"
        grid.add_row(card.title.lower(), Text(reading.rstrip()))
    tied = [family(each.name) for each in verdict.candidates if each.tied]
    if tied:
        grid.add_row("tied with", Text(", ".join(tied)))
    for each in verdict.beside:
        leak = "" if each.leakage is None else f"; leakage {interval(each.leakage)}"
        grid.add_row("beside", Text(f"{each.who}: {each.statement.rstrip('.')}{leak}"))
    console.print(Padding(grid, (0, 2)))


def _show_tests(console: Console, verdict: Verdict) -> None:
    chosen = verdict.choice
    tests = () if chosen is None else final_tests(chosen)
    if chosen is None or not tests:
        return
    allowed, blind = hundred(verdict.largest_success_rate), hundred(verdict.claim.kappa)
    _title(console, f"Tests by fresh games (allowed: {allowed}, blind guess: {blind})")
    known = {each.name: each for each in verdict.attacks}
    rows = []
    for each in tests:
        used = known.get(each.attack)
        bare = f"{used.control_recovered} of {used.control_units}" if used else "–"
        passed = "yes" if each.passed else "NO"
        rows.append((each.attack, f"{each.recovered} of {each.units}", passed, bare))
    _table(console, ("attack", "right picks", "passed", "unprotected round"), rows)
    if failed := earlier_tests(chosen):
        console.print(Padding(Text(failed), (0, 2)))


def _show_ladder(console: Console, verdict: Verdict) -> None:
    made = ladder(verdict)
    if made is None:
        return
    _title(console, f"The ladder: what keeps the budget of {number(verdict.request.budget)}")
    rows, notes = [], []
    for knows in made.rungs:
        steps = made.on(knows)
        if all(each.mark == "none" for each in steps):
            notes.append(f"{RUNGS[knows]}: {steps[0].note}")
            continue
        for place, each in enumerate(steps):
            leaks = "key" if each.mark == "key" else "–"
            leaks = leaks if each.leakage is None else number(each.leakage.value)
            rows.append(
                (
                    RUNGS[knows] if place == 0 else "",
                    family(each.family),
                    each.strength.removeprefix("variance "),
                    leaks,
                    metric(each.metric, made.metric),
                    slower(each.reduction),
                    each.mark,
                )
            )
    columns = ("knows", "family", "strength", "leaks", made.metric[:8], "round", "")
    _table(console, columns, rows, gap=1)
    for sentence in filter(None, (*notes, next_rung(verdict))):
        console.print(Padding(Text(sentence), (0, 2)))


def _show_certificates(console: Console, verdict: Verdict) -> None:
    for candidate, proof in certified(verdict.candidates):
        _title(console, f"Proved for {family(candidate.name)}, against anyone")
        columns = ("candidates", "right at most", "blind guess")
        _table(console, columns, line_ups(proof))
        for sentence in readings(proof):
            console.print(Padding(Text(sentence), (0, 2)))


def _show_candidates(console: Console, verdict: Verdict) -> None:
    _title(console, "All candidates, the least cost first")
    shown = metric_name(each.costs.protected_metric for each in verdict.candidates if each.costs)
    rows = []
    for each in verdict.candidates:
        mark = "-" if each.rank is None else f"{each.rank}{'=' if each.tied else ''}"
        costs = each.costs
        rows.append(
            (
                mark,
                family(each.name),
                strength(each.name, each.parameter) if each.leakage or costs else "–",
                _leaks(each),
                "–" if costs is None else metric(costs.protected_metric, shown),
                "–" if costs is None else slower(costs.efficiency_reduction.value),
            )
        )
    _table(console, ("#", "family", "strength", "leakage", shown[:8], "round"), rows, gap=1)
    for statement, names in _statements(verdict).items():
        line = Text.assemble((", ".join(names), "bold"), f": {statement}")
        console.print(Padding(line, (0, 2)))


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
    """What is said of the candidates that were not chosen, each sentence once."""
    found: dict[str, list[str]] = {}
    for each in verdict.candidates:
        if each is not verdict.choice:
            said = " ".join(filter(None, (not_needed(verdict, each), each.statement)))
            found.setdefault(said, []).append(family(each.name))
    return found


def _show_promises(console: Console, verdict: Verdict) -> None:
    if not verdict.promises:
        return
    promised = number(verdict.request.budget)
    _title(console, f"The paper's optimum, promised to leak {promised}, attacked")
    constants = verdict.constants
    if constants is not None:
        smoothed = f" (smoothed: {constants.reason})" if constants.smoothed else ""
        line = f"C1 = {number(constants.c1.value)}, C2 = {number(constants.c2)}{smoothed}"
        console.print(Padding(Text(line), (0, 2)))
    columns = ("mechanism, form", "optimum", "measured leakage", "right picks")
    _table(console, columns, map(_promise, verdict.promises))
    for each in verdict.promises:
        if each.note:
            console.print(Padding(Text(f"{each.mechanism}, {each.form}: {each.note}"), (0, 2)))


def _promise(each: Promise) -> tuple[str, ...]:
    value = "none" if each.parameter is None else f"{each.symbol} = {number(each.parameter)}"
    name = f"{each.mechanism}, {each.form}"
    if each.measured is None:
        return name, value, "cannot be run", "–"
    return name, value, interval(each.measured), f"{each.successes} of {each.units}"


def _title(console: Console, text: str) -> None:
    console.print(Text(f"\n{text}", style="bold"))


def _bullet(console: Console, sentence: str) -> None:
    grid = Table.grid()
    grid.add_row("  - ", Text(sentence))
    console.print(grid)


def _table(
    console: Console, columns: Iterable[str], rows: Iterable[Iterable[str]], gap: int = 2
) -> None:
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, gap, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (0, 0, 0, 2)))
