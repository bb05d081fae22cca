"""What attacks recovered, and the paper's constants, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.estimation.leakage import Estimate, mean_leakage, success_rate
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.estimation.recovering.recoveries import Outcomes
    from trilemma.paper.estimating import (
        ClientConstants,
        EstimatedConstants,
        Guess,
        LiteralConstants,
    )

__all__ = ["show_constants", "show_recoveries"]

_WIDE: Final = 100
_METRICS: Final = {
    "psnr": "PSNR",
    "ssim": "SSIM",
    "columns": "share of right columns",
    "tokens": "share of tokens found",
}


def show_recoveries(
    headline: str, rows: Sequence[tuple[str, Outcomes]], guess: Guess, confidence: float
) -> None:
    """One column a protection: success of the tagged record, of all records, and the leakage."""
    out = Printer(_WIDE)
    out.text(headline)
    out.text(f"{_criterion(guess)}\n")
    columns = [_column(outcomes, confidence) for _, outcomes in rows]
    interval = f"{100 * confidence:g} % interval"
    labels = (
        "recovered",
        interval,
        "of all records",
        f"median {_METRICS[guess.criterion.metric]}",
    )
    lines = zip((*labels, "leakage", interval), *columns, strict=True)
    out.table(("protection", *(name for name, _ in rows)), lines, gap=2)


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
    out = Printer(_WIDE)
    out.text(f"{headline}\n")
    overall = [
        ("C1 (mean over clients)", found.c1),
        ("C1 (worst client)", found.c1_max),
        ("success", found.success),
        ("any record of an update", found.success_any),
    ]
    rows = [(name, f"{each.value:.3f}", _interval(each)) for name, each in overall]
    if found.kappa is not None:
        limits = f"{found.kappa.low:.4f} .. {found.kappa.high:.4f}"
        rows.append(("kappa (blind guess)", f"{found.kappa.rate:.4f}", limits))
    for name, value, smoothed in (
        ("xi", found.ratio.xi, found.ratio.xi_smoothed),
        ("C2", found.ratio.c2, found.ratio.c2_smoothed),
    ):
        shown = "not finite" if value is None else f"{value:.4g}"
        rows.append((name, shown, f"smoothed {smoothed:.4g}"))
    out.table(("", "value", f"{100 * found.confidence:g} % interval"), rows, gap=2)
    out.text("")
    columns = ("client", "updates", "success", "interval", "C1", "interval", "error bound")
    out.table(columns, map(_client, found.clients), gap=2)
    out.text("")
    for sentence in _remarks(found, literal):
        out.text(sentence)


def _client(client: ClientConstants) -> tuple[str, ...]:
    error = client.error_corrected
    return (
        str(client.client),
        str(client.units),
        f"{client.success.value:.3f}",
        _interval(client.success),
        f"{client.c1.value:.3f}",
        _interval(client.c1),
        "vacuous" if error is None else f"{error:.3f} (paper: {client.error_printed:.3f})",
    )


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
        remarks.append(f"{failed} updates diverged and are counted as recovered.")
    if found.models is not None and found.models < found.units:
        remarks.append(
            f"All updates share {found.models} models: the intervals are conditional on those."
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
    metric, threshold = _METRICS[guess.criterion.metric], guess.criterion.threshold
    unit = " dB" if guess.criterion.metric == "psnr" else ""
    sentence = f"recovered: {metric} above {threshold:g}{unit}"
    if guess.kappa is None:
        return sentence
    return f"{sentence}; a blind guess reaches it for {100 * guess.kappa.rate:.2f} % of records"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.3f} .. {estimate.high:.3f}"
