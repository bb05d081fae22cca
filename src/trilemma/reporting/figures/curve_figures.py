"""Leakage and costs of each family against its strength."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trilemma.reporting.figures.style import band, blank, legend, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trilemma.game.estimates import Estimate
    from trilemma.reporting.page.panels import Mark, Panel
    from trilemma.tuning.results.points import Point

__all__ = ["draw_costs", "draw_leakage"]


def draw_leakage(points: Sequence[Point], panels: Sequence[Panel], budget: float | None) -> Figure:
    """What leaks, the budget, and the strengths that somebody names."""
    figure = blank(3.1 * len(panels) + 0.6, 3.0)
    line = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(line, panels, strict=True):
        _band(axes, points, panel, lambda each: each.leakage)
        if budget is not None:
            axes.axhline(budget, color="black", linestyle=":", linewidth=1, label="budget")
        for mark in panel.marks:
            _mark(axes, mark)
        axes.set(ylim=(-0.03, 1.03), title=panel.name)
        _ticks(axes, panel)
    line[0].set_ylabel("leakage")
    legend(figure, line)
    return figure


def _mark(axes: Axes, mark: Mark) -> None:
    """A tested value with its interval, or a line; what lies beyond the axis is an arrow."""
    if mark.kind in ("verdict", "tested") and mark.leakage is not None and 0 <= mark.x <= 1:
        found = mark.leakage
        axes.errorbar(
            [mark.x], [found.value], [[found.value - found.low], [found.high - found.value]],
            fmt="D", color="black", zorder=3,
            markerfacecolor="black" if mark.kind == "verdict" else "white",
            label="verdict" if mark.kind == "verdict" else "tested with fresh games",
        )  # fmt: skip
        return
    x = min(1.0, max(0.0, mark.x))
    axes.axvline(x, color="#8C3A00", linestyle="-", linewidth=1.2, label=mark.kind)
    if x != mark.x:
        axes.plot([x], [0.97], "<" if x == 0 else ">", color="#8C3A00", ms=7)


def draw_costs(points: Sequence[Point], panels: Sequence[Panel], metric: str) -> Figure:
    """The loss of the metric, and bits and seconds of a round."""
    figure = blank(3.1 * len(panels) + 0.6, 5.0)
    upper, lower = figure.subplots(2, len(panels), squeeze=False, sharey="row")
    bare = next((point for point in points if point.family == "none"), None)
    for number, panel in enumerate(panels):
        colour, marker = style(panel.family)
        _band(upper[number], points, panel, lambda each: each.utility_loss)
        upper[number].set_title(panel.name)
        for what, line in (("seconds", "-"), ("bits", "--")):
            whole = getattr(bare, what, None)
            at = [
                (x, getattr(points[place], what) / whole)
                for x, place in panel.points
                if whole and getattr(points[place], what)
            ]
            if at:
                lower[number].plot(
                    *zip(*at, strict=True), line, color=colour, marker=marker, ms=3,
                    label=f"{'CPU seconds' if what == 'seconds' else what} of a round",
                )  # fmt: skip
        lower[number].set_yscale("log")
        for axes in (upper[number], lower[number]):
            _ticks(axes, panel)
    upper[0].set_ylabel(f"loss of {metric}")
    lower[0].set_ylabel("× unprotected")
    legend(figure, lower)
    return figure


def _band(
    axes: Axes,
    points: Sequence[Point],
    panel: Panel,
    estimate: Callable[[Point], Estimate | None],
) -> None:
    found = [(x, estimate(points[place])) for x, place in panel.points]
    drawn = [(x, item) for x, item in found if item is not None]
    band(axes, drawn, *style(panel.family), ms=3)


def _ticks(axes: Axes, panel: Panel) -> None:
    places, labels = zip(*panel.axis.ticks(), strict=True)
    axes.set_xticks(places, labels)
    axes.set(xlim=(-0.04, 1.04), xlabel=panel.symbol)
    axes.grid(alpha=0.3)
