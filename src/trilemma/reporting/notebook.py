"""What a notebook shows of a verdict: one line, a summary, figures, and a frame of numbers."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trilemma.errors import InvalidInput
from trilemma.reporting.figures.curve_figures import draw_leakage
from trilemma.reporting.figures.ranking import draw_ranking
from trilemma.reporting.figures.rounds_figure import draw_rounds
from trilemma.reporting.figures.trade_off_figure import draw_success
from trilemma.reporting.page.page import verdict_cell
from trilemma.reporting.page.panels import verdict_panels
from trilemma.reporting.page.rounds_plot import rounds_series
from trilemma.reporting.words.answer import answer, summary, verdict_metric
from trilemma.reporting.words.numbers import hundred, metric
from trilemma.reporting.words.protection_text import family, phrase

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.tuning.results.verdict import Verdict

__all__ = ["frame", "leakage_figure", "short", "summary", "verdict_cell"]


def short(verdict: Verdict) -> str:
    """A verdict in one line."""
    allowed = f"allowed {hundred(verdict.largest_success_rate)}"
    chosen = verdict.choice
    if chosen is None:
        return f"Verdict(nothing was shown to keep the budget: {allowed} right guesses)"
    said = [f"use {phrase(chosen.protection)}"]
    if chosen.success is not None:
        said.append(f"guessed right in {hundred(chosen.success.value)} games, {allowed}")
    else:
        said.append(answer(verdict).badge)
    if chosen.costs is not None:
        before, after = chosen.costs.unprotected_metric, chosen.costs.protected_metric
        name = verdict_metric(verdict)
        said.append(f"{name} {metric(before, name)} → {metric(after, name)}")
    return f"Verdict({'; '.join(said)})"


def leakage_figure(verdict: Verdict) -> Figure:
    """Of a proof success against accuracy; else leakage against strength, rounds, or families."""
    _inline()
    if verdict.figure is not None:
        return draw_success(verdict.figure)
    budget, panels = verdict.request.budget, verdict_panels(verdict)
    if panels:
        return draw_leakage(verdict.curves, panels, budget)
    if series := rounds_series(verdict.rounds):
        return draw_rounds(series, budget)
    return draw_ranking(verdict)


def frame(verdict: Verdict) -> Any:
    """One row a family: strength, leakage and its limits, rate of right guesses, metric, cost."""
    try:
        import pandas
    except ImportError:
        raise InvalidInput(
            "a frame needs pandas, which is not there: pip install pandas."
        ) from None
    rows = []
    for candidate in verdict.candidates:
        leaks, guesses, costs = candidate.leakage, candidate.success, candidate.costs
        rows.append(
            {
                "family": family(candidate.name),
                "chosen": candidate.name == verdict.chosen,
                "strength": candidate.strength,
                "leakage": None if leaks is None else leaks.value,
                "leakage_low": None if leaks is None else leaks.low,
                "leakage_high": None if leaks is None else leaks.high,
                "right_picks": None if guesses is None else guesses.value,
                "metric": None if costs is None else costs.protected_metric,
                "metric_lost": None if costs is None else costs.utility_loss.value,
                "round_longer": None if costs is None else costs.efficiency_reduction.value,
                "holds": candidate.feasible,
                "why": candidate.statement,
            }
        )
    return pandas.DataFrame(rows)


def _inline() -> None:
    """Let a notebook show figures that were made without pyplot."""
    shell: Any = sys.modules.get("IPython")
    here = None if shell is None else shell.get_ipython()
    if here is not None and hasattr(here, "kernel"):
        tools: Any = import_module("IPython.core.pylabtools")
        tools.select_figure_formats(here, {"png"})
