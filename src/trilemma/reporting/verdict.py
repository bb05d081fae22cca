"""A verdict for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilemma.errors import printable
from trilemma.reporting.wording import change, count, slower

if TYPE_CHECKING:
    from trilemma.estimation.leakage import Estimate
    from trilemma.tuning.results.verdict import Candidate, Verdict
    from trilemma.tuning.surrogate.promises import Promise

__all__ = ["show_verdict"]

_WIDTH: Final = 80


def show_verdict(verdict: Verdict) -> None:
    """What is not covered, what to use, what leaks, what it costs, against whom."""
    console = Console(highlight=False, soft_wrap=False, file=sys.stdout)
    console.width = min(console.width, _WIDTH)
    console.print(Text(_headline(verdict)))
    console.print(Text("\nNot covered", style="bold"))
    for sentence in verdict.limits:
        bullet = Table.grid()
        bullet.add_row("  - ", Text(sentence))
        console.print(bullet)
    _show_choice(console, verdict)
    console.print(Text("\nAll candidates", style="bold"))
    console.print(_candidates(verdict))
    for statement, names in _statements(verdict).items():
        line = Text.assemble((", ".join(names), "bold"), f": {statement}")
        console.print(Padding(line, (0, 2)))
    if verdict.promises:
        _show_promises(console, verdict)


def _headline(verdict: Verdict) -> str:
    there = verdict.federation
    return (
        f"{printable(there.scenario)}: {count(there.clients, 'client')}, "
        f"{count(there.records_per_update, 'record')} an update "
        f"({verdict.local_training.algorithm}), {there.parameters} parameters; budget "
        f"{verdict.problem.budget:g}, confidence {verdict.confidence:g}, seed {verdict.seed}"
    )


def _statements(verdict: Verdict) -> dict[str, list[str]]:
    """What is said of the candidates that were not chosen, each sentence once."""
    found: dict[str, list[str]] = {}
    for each in verdict.candidates:
        if each is not verdict.choice:
            found.setdefault(each.statement, []).append(each.name)
    return found


def _show_choice(console: Console, verdict: Verdict) -> None:
    chosen = verdict.choice
    console.print(Text("\nVerdict", style="bold"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    if chosen is None:
        grid.add_row("use", Text("nothing was shown to keep the budget", style="bold"))
        grid.add_row("what helps", Text(verdict.advice))
        console.print(Padding(grid, (0, 2)))
        return
    grid.add_row("use", Text(chosen.protection or "none", style="bold", overflow="fold"))
    grid.add_row("basis", Text(f"{verdict.basis}. {chosen.statement}"))
    grid.add_row("leaks", Text(_leaks(chosen, verdict)))
    if chosen.worst_client is not None:
        worst = f"{_interval(chosen.worst_client)}, limits for all clients at once"
        grid.add_row("worst client", Text(worst))
    if chosen.costs is not None:
        costs = chosen.costs
        grid.add_row(
            "costs",
            Text(
                f"metric {costs.unprotected_metric:.3f} -> {costs.protected_metric:.3f} (loss "
                f"{_interval(costs.utility_loss)}); efficiency reduction "
                f"{_interval(costs.efficiency_reduction)}: "
                f"{costs.protected.bits / max(costs.unprotected.bits, 1):.3g} times the bits, "
                f"{costs.protected.seconds / max(costs.unprotected.seconds, 1e-12):.3g} times the "
                f"seconds of a round"
            ),
        )
    tied = [each.name for each in verdict.candidates if each.tied]
    if tied:
        grid.add_row("tied with", Text(", ".join(tied)))
    grid.add_row("adversary", Text(_adversary(verdict)))
    grid.add_row("attackers", Text(_attackers(verdict)))
    for each in verdict.beside:
        leak = "" if each.leakage is None else f"; leakage {_interval(each.leakage)}"
        grid.add_row("beside", Text(f"{each.who}: {each.statement}{leak}"))
    console.print(Padding(grid, (0, 2)))


def _leaks(chosen: Candidate, verdict: Verdict) -> str:
    if chosen.leakage is None:
        return "nothing that the adversary can read without the key; not a measured zero"
    budget = f"budget {verdict.problem.budget:g}"
    if chosen.certificate is not None:
        sure = chosen.certificate.kappa_confidence
        given = "given the stated kappa" if sure is None else f"at confidence {sure:g}"
        return f"at most {chosen.leakage.high:.3f} to any attacker ({budget}), {given}"
    kind = f"pointwise {100 * verdict.confidence:g} % interval"
    if chosen.basis == "surrogate":
        return f"{_interval(chosen.leakage)} ({kind}); promised {verdict.problem.budget:g}"
    return (
        f"within the {budget} at confidence {verdict.confidence:g}; here "
        f"{_interval(chosen.leakage)} ({kind})"
    )


def _adversary(verdict: Verdict) -> str:
    return "the server" if verdict.adversary.value == "server" else "a curious client"


def _attackers(verdict: Verdict) -> str:
    parts = []
    for each in verdict.attacks:
        shown = "" if each.binding else ", shown only"
        parts.append(
            f"{each.name} (best of {each.restarts}{shown}; unprotected it recovers "
            f"{each.control_recovered} of {each.control_units})"
        )
    return "; ".join(parts)


def _candidates(verdict: Verdict) -> Table:
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for column in ("#", "mechanism", "value", "leakage", "utility", "cost"):
        table.add_column(column, no_wrap=True)
    for each in verdict.candidates:
        costs = each.costs
        mark = "-" if each.rank is None else f"{each.rank}{'=' if each.tied else ''}"
        leak = "key" if each.basis == "cryptographic" else "-"
        if each.certificate is not None:
            leak = f"at most {each.certificate.leakage:.2f}"
        elif each.leakage is not None:
            leak = f"{each.leakage.value:.2f} [{each.leakage.low:.2f}, {each.leakage.high:.2f}]"
        elif each.smallest_leakage is not None:
            leak = f"not below {each.smallest_leakage:.2f}"
        table.add_row(
            mark,
            each.name,
            "-" if each.parameter is None else f"{each.parameter:.3g}",
            leak,
            "-" if costs is None else change(-costs.utility_loss.value),
            "-" if costs is None else slower(costs.efficiency_reduction.value),
        )
    return table


def _show_promises(console: Console, verdict: Verdict) -> None:
    console.print(
        Text(
            f"\nThe paper's optimum, promised to leak {verdict.problem.budget:g}, attacked",
            style="bold",
        )
    )
    constants = verdict.constants
    if constants is not None:
        smoothed = f" (smoothed: {constants.reason})" if constants.smoothed else ""
        line = f"C1 = {constants.c1.value:.3f}, C2 = {constants.c2:.4g}{smoothed}"
        console.print(Padding(Text(line), (0, 2)))
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for column in ("mechanism, form", "optimum", "measured leakage", "units"):
        table.add_column(column, no_wrap=True)
    notes = []
    for each in verdict.promises:
        table.add_row(*_promise(each))
        if each.note:
            notes.append(f"{each.mechanism}, {each.form}: {each.note}")
    console.print(Padding(table, (0, 2)))
    for note in notes:
        console.print(Padding(Text(note), (0, 2)))


def _promise(each: Promise) -> tuple[str, ...]:
    value = "none" if each.parameter is None else f"{each.symbol} = {each.parameter:.3g}"
    name = f"{each.mechanism}, {each.form}"
    if each.measured is None:
        return name, value, "cannot be run", "-"
    return name, value, _interval(each.measured), f"{each.successes} of {each.units}"


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
