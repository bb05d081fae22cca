"""Success rate against accuracy lost: a curve for each knowledge, the proof above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.reporting.figures.style import STYLES, blank
from trilemma.reporting.page.trade_off_plot import trade_off_plot
from trilemma.reporting.words.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trilemma.reporting.page.trade_off_plot import TradeOffPlot
    from trilemma.tuning.results.success_by_noise import TradeOff

__all__ = ["draw_success"]

_RATES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_LOWEST: Final = 0.01
_GAP: Final = 0.052  # of the axis, between labels


def draw_success(found: TradeOff) -> Figure:
    """One curve for each knowledge with its name at its end; the limit, and what was chosen."""
    plot = trade_off_plot(found)
    scale = 100 if plot.in_percent else 1
    figure = blank(7.2, 4.2)
    axes = figure.subplots()
    low = min(_LOWEST, plot.blind / 1.5)
    axes.set_yscale("log")
    ends = [scale * end for end in plot.x_ends]
    axes.set(xlim=ends, ylim=(low, 1.08), xlabel=plot.x_label, ylabel=plot.y_label)
    shown = [rate for rate in _RATES if rate >= low]
    axes.set_yticks(shown, [f"{100 * rate:g} %" for rate in shown])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.axhline(plot.blind, color="0.5", linewidth=0.8)
    axes.axhline(plot.budget, color="black", linestyle=":", linewidth=1.2)
    axes.annotate(
        f"limit {percent(plot.budget)}", (ends[1], plot.budget), (-4, 3),
        textcoords="offset points", ha="right",
    )  # fmt: skip
    for number, curve in enumerate(plot.curves):
        colour, marker = STYLES[number]
        if curve.knows == "rest":
            xs, lower, upper = zip(*curve.band, strict=True)
            axes.fill_between(
                [scale * x for x in xs], [max(low, y) for y in lower], upper,
                color=colour, alpha=0.16, linewidth=0,
            )  # fmt: skip
        xs, ys = zip(*curve.line, strict=True)
        axes.plot(
            [scale * x for x in xs], ys, color=colour, linewidth=2.4 if curve.proved else 1.4
        )
        xs, ys = zip(*curve.points, strict=True)
        axes.plot([scale * x for x in xs], ys, marker, color=colour, ms=5, linestyle="none")
    at, rate = plot.curves[0].points[plot.chosen]
    axes.plot([scale * at], [rate], "o", ms=14, markerfacecolor="none", markeredgecolor="black")
    axes.annotate("chosen", (scale * at, rate), (11, 5), textcoords="offset points")
    _label_ends(axes, plot)
    return figure


def _label_ends(axes: Axes, plot: TradeOffPlot) -> None:
    """The curves' names beside their right ends, moved apart where they would touch."""
    heights = {
        number: axes.transAxes.inverted().transform(axes.transData.transform(curve.points[-1]))[1]
        for number, curve in enumerate(plot.curves)
    }
    below = None
    for number in sorted(heights, key=lambda each: (heights[each], -each)):
        height = max(
            0.01, heights[number] if below is None else max(heights[number], below + _GAP)
        )
        below = height
        axes.annotate(
            plot.curves[number].name, (1.015, height), xycoords="axes fraction", va="center",
            color=STYLES[number][0], annotation_clip=False,
        )  # fmt: skip
