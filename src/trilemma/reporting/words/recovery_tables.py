"""What attacks recovered, as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.game.estimates import Estimate
from trilemma.game.recovering.recovery_rates import Rates
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.game.recovering.criterion import Guess
    from trilemma.game.recovering.recoveries import Outcomes

__all__ = ["show_recoveries"]

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
    """One column a protection: success of the target record, of all records, and the leakage."""
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
    rates = Rates.of(outcomes, confidence=confidence)
    return (
        f"{rates.success.value:.3f}",
        _interval(rates.success),
        f"{rates.success_all:.3f}",
        f"{np.nanmedian(outcomes.similarity):.3g}",
        f"{rates.leakage.value:.3f}",
        _interval(rates.leakage),
    )


def _criterion(guess: Guess) -> str:
    metric, threshold = _METRICS[guess.criterion.metric], guess.criterion.threshold
    unit = " dB" if guess.criterion.metric == "psnr" else ""
    sentence = f"recovered: {metric} above {threshold:g}{unit}"
    if guess.kappa is None:
        return sentence
    return f"{sentence}; a blind guess reaches it for {100 * guess.kappa.rate:.2f} % of records"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.3f} .. {estimate.high:.3f}"
