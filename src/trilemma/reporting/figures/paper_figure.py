"""The paper's trade-off: metric, bounds and what is measured, against γ of each mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.reporting.figures.style import STYLES, blank, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trilemma.game.estimates import Estimate
    from trilemma.paper_framework.paper_result import Curve, Paper

__all__ = ["draw_trade_off"]

_METRIC, _BOUND, _MEASURED = (colour for colour, _ in STYLES[:3])
_LINES: Final = {"printed": ":", "corrected": "--", "tight": "-."}


def draw_trade_off(paper: Paper) -> Figure:
    """Three rows (privacy, utility, efficiency), a column for each mechanism."""
    figure = blank(3.2 * len(paper.curves), 8.0)
    grid = figure.subplots(3, len(paper.curves), squeeze=False, sharex="col", sharey="row")
    for column, curve in enumerate(paper.curves):
        privacy, utility, cost = (grid[row][column] for row in range(3))
        _model(privacy, curve, "metric", "ε̃_p (metric)", _METRIC)
        _model(privacy, curve, "leakage_bound", "bound of Theorem 4.1", _BOUND)
        _model(utility, curve, "utility_bound", "bound", _BOUND)
        _model(cost, curve, "efficiency_bound", "bound", _BOUND)
        optima = [row for row in paper.rows if row.optimum.mechanism == curve.mechanism]
        found = [*curve.measured, *(row.measured for row in optima if row.measured)]
        _dots(privacy, [(item.gamma, item.leakage) for item in found])
        _dots(utility, [(item.gamma, item.utility_loss) for item in found])
        _dots(cost, [(item.gamma, item.efficiency_reduction) for item in found])
        privacy.axhline(paper.budget, color="black", linewidth=0.8, label="budget ε")
        for row in optima:
            if row.gamma:
                for axes in (privacy, utility, cost):
                    axes.axvline(
                        row.gamma, color="#8C3A00", linestyle=_LINES[row.optimum.form],
                        linewidth=1.0, label=f"γ*, {row.optimum.form}",
                    )  # fmt: skip
        privacy.set(title=curve.mechanism, ylim=(-0.05, 2.05))
        utility.set(ylim=(-0.1, 1.05))
        cost.set(ylim=(-0.5, 1.05), xlabel=curve.axis, xscale="log")
    for axes, label in zip(
        grid[:, 0],
        ("privacy leakage ε_p", "utility loss ε_u", "efficiency reduction ε_e"),
        strict=True,
    ):
        axes.set_ylabel(label)
    legend(figure, list(grid[0]))
    return figure


def _model(axes: Axes, curve: Curve, name: str, label: str, colour: str) -> None:
    points = [(item.gamma, getattr(item, name)) for item in curve.modelled]
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.2, label=label)


def _dots(axes: Axes, points: list[tuple[float, Estimate | None]]) -> None:
    known = [(gamma, found) for gamma, found in points if found is not None]
    if known:
        below = [max(0.0, found.value - found.low) for _, found in known]
        above = [max(0.0, found.high - found.value) for _, found in known]
        axes.errorbar(
            [gamma for gamma, _ in known], [found.value for _, found in known], [below, above],
            fmt="o", color=_MEASURED, markersize=3.5, linewidth=1.0, label="measured",
        )  # fmt: skip
