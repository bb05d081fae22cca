"""All measured points between leakage and loss, the front among them filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trilemma.reporting.figures.style import blank, style
from trilemma.reporting.words.protection_text import family

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.game.estimates import Estimate
    from trilemma.tuning.results.points import Point

__all__ = ["draw_front"]


def draw_front(points: Sequence[Point], front: Sequence[int], metric: str) -> Figure:
    """Leakage against loss; the length of a round as colour, the front filled."""
    from matplotlib.colors import LogNorm

    figure = blank(6.4, 4.2)
    axes = figure.subplots()
    able = [n for n, point in enumerate(points) if point.objectives is not None]
    # A colour scale in decades needs positive ends.
    lengths = {n: min(1e6, max(1e-6, 1 + _value(points[n].efficiency_reduction))) for n in able}
    norm = LogNorm(min(0.5, *lengths.values()), max(2.0, *lengths.values()))
    shade = None
    for name in dict.fromkeys(points[n].family for n in able):
        _, marker = style(name)
        own = [n for n in able if points[n].family == name]
        rest, best = [n for n in own if n not in front], [n for n in own if n in front]
        axes.scatter(
            *_places(points, rest), marker=marker, s=18, facecolors="none", edgecolors="0.6",
            label=family(name),
        )  # fmt: skip
        shade = axes.scatter(
            *_places(points, best), marker=marker, s=52, c=[lengths[n] for n in best], norm=norm,
            cmap="cividis", edgecolors="black", linewidths=0.8,
        )  # fmt: skip
    axes.set(xlabel="leakage", ylabel=f"loss of {metric}", xlim=(-0.03, 1.03))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    if shade is not None:
        figure.colorbar(shade, ax=axes, label="a round takes (× unprotected)")
    return figure


def _places(points: Sequence[Point], own: Sequence[int]) -> tuple[list[float], list[float]]:
    return (
        [_value(points[n].leakage) for n in own],
        [_value(points[n].utility_loss) for n in own],
    )


def _value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value
