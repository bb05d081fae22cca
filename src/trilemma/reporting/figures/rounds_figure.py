"""Leakage against rounds, measured with intervals, and what is proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trilemma.reporting.figures.style import STYLES, band, blank, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.reporting.page.rounds_plot import Series

__all__ = ["draw_rounds"]


def draw_rounds(series: Sequence[Series], budget: float) -> Figure:
    """One curve an attacker on a scale of decades; the intervals hold all at once."""
    figure = blank(6.4, 4.2)
    axes = figure.subplots()
    for number, item in enumerate(series):
        colour, marker = STYLES[number % len(STYLES)]
        drawn: dict[str, Any] = {"ms": 4, "label": item.name}
        if item.certified:
            at = [(rounds, leakage.high) for rounds, leakage in item.points]
            axes.plot(*zip(*at, strict=True), "--", color=colour, marker=marker, **drawn)
        else:
            band(axes, item.points, colour, marker, **drawn)
    axes.axhline(budget, color="black", linestyle=":", linewidth=1, label="budget")
    axes.set_xscale("log")
    steps = sorted({rounds for item in series for rounds, _ in item.points})
    axes.set_xticks(steps, list(map(str, steps)))
    axes.minorticks_off()
    axes.set(ylim=(-0.03, 1.03), xlabel="rounds", ylabel="leakage")
    axes.grid(alpha=0.3)
    legend(figure, [axes])
    return figure
