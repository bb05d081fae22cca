"""What attacks recovered, and the paper's constants, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilemma.estimation.leakage import Estimate, mean_leakage, success_rate

if TYPE_CHECKING:
    from trilemma.estimation.constants import EstimatedConstants, Guess, LiteralConstants
    from trilemma.estimation.recoveries import Outcomes

__all__ = ["show_constants", "show_recoveries"]


def show_recoveries(
    headline: str, rows: Sequence[tuple[str, Outcomes]], guess: Guess, confidence: float
) -> None:
    """One column a protection: success of the tagged record, of all records, and the leakage."""
    console = _console()
    console.print(Text(headline))
    console.print(Text(_criterion(guess)))
    columns = [_column(outcomes, confidence) for _, outcomes in rows]
    interval = f"{100 * confidence:g} % interval"
    labels = ("recovered", interval, "of all records", f"median {guess.criterion.metric.upper()}")
    table = _table("protection", *(name for name, _ in rows))
    for label, *cells in zip((*labels, "leakage", interval), *columns, strict=True):
        table.add_row(label, *cells)
    console.print(Padding(table, (1, 0)))


def _column(outcomes: Outcomes, confidence: float) -> tuple[str, ...]:
    tagged = outcomes.tagged()
    rate = success_rate(int(tagged.sum()), len(tagged), confidence)
    clients = np.unique(outcomes.client)
    hits = [int(tagged[outcomes.client == k].sum()) for k in clients]
    leak = mean_leakage(hits, len(tagged) // len(clients), confidence=confidence)
    return (
        f"{rate.value:.3f}",
        _interval(rate),
        f"{outcomes.counted[:, 0].mean():.3f}",
        f"{np.nanmedian(outcomes.similarity):.3g}",
        f"{leak.value:.3f}",
        _interval(leak),
    )


def show_constants(
    headline: str, found: EstimatedConstants, literal: LiteralConstants | None
) -> None:
    """C₁, ξ, C₂ and κ overall, then the clients."""
    console = _console()
    console.print(Text(headline))
    overall = _table("", "value", f"{100 * found.confidence:g} % interval")
    overall.add_row("C1 (mean over clients)", f"{found.c1.value:.3f}", _interval(found.c1))
    overall.add_row("C1 (worst client)", f"{found.c1_max.value:.3f}", _interval(found.c1_max))
    overall.add_row("success", f"{found.success.value:.3f}", _interval(found.success))
    overall.add_row(
        "any record of a unit", f"{found.success_any.value:.3f}", _interval(found.success_any)
    )
    if found.kappa is not None:
        limits = f"{found.kappa.low:.4f} .. {found.kappa.high:.4f}"
        overall.add_row("kappa (blind guess)", f"{found.kappa.rate:.4f}", limits)
    for name, value, smoothed in (
        ("xi", found.ratio.xi, found.ratio.xi_smoothed),
        ("C2", found.ratio.c2, found.ratio.c2_smoothed),
    ):
        shown = "not finite" if value is None else f"{value:.4g}"
        overall.add_row(name, shown, f"smoothed {smoothed:.4g}")
    console.print(Padding(overall, (1, 0)))
    clients = _table("client", "units", "success", "interval", "C1", "interval", "error bound")
    for client in found.clients:
        error = client.error_corrected
        clients.add_row(
            str(client.client),
            str(client.units),
            f"{client.success.value:.3f}",
            _interval(client.success),
            f"{client.c1.value:.3f}",
            _interval(client.c1),
            "vacuous" if error is None else f"{error:.3f} (paper: {client.error_printed:.3f})",
        )
    console.print(clients)
    console.print()
    for sentence in _remarks(found, literal):
        console.print(Text(sentence))


def _remarks(found: EstimatedConstants, literal: LiteralConstants | None) -> list[str]:
    remarks = []
    if found.attack_failed:
        remarks.append(
            f"The attack failed here: unprotected, it recovers {100 * found.success.value:.0f} % "
            f"of the records, so C1 says nothing about privacy; try another attack, more "
            f"restarts, or a smaller batch."
        )
    if found.ratio.reason:
        remarks.append(
            f"C2 is not finite: {found.ratio.reason}. The smoothed values add half a success and "
            f"half a failure to each count: they measure the number of trials as much as the data."
        )
    failed = sum(client.failed for client in found.clients)
    if failed:
        remarks.append(f"{failed} units diverged and are counted as recovered.")
    if found.models is not None and found.models < found.units:
        remarks.append(
            f"All units share {found.models} models: the intervals are conditional on those."
        )
    if literal is not None:
        xi = "not finite" if literal.xi is None else f"{literal.xi:.4g}"
        remarks.append(
            f"Literal reading of the paper (uniform prior, attack at w', pairs by position): "
            f"C1 = {literal.c1:.3f}, worst {literal.c1_max:.3f}, xi {xi}; for comparison only, "
            f"because it gives a useless attack a higher leakage than a perfect one."
        )
    return remarks


def _criterion(guess: Guess) -> str:
    metric, threshold = guess.criterion.metric.upper(), guess.criterion.threshold
    unit = " dB" if guess.criterion.metric == "psnr" else ""
    sentence = f"recovered: {metric} above {threshold:g}{unit}"
    if guess.kappa is None:
        return sentence
    return f"{sentence}; a blind guess reaches it for {100 * guess.kappa.rate:.2f} % of records"


def _console() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, 100)
    return console


def _table(*columns: str) -> Table:
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.3f} .. {estimate.high:.3f}"
