"""Colours, markers, blank figures and legends, alike in all figures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from trilemma.tuning.families.family import FAMILIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trilemma.game.estimates import Estimate

__all__ = ["STYLES", "band", "blank", "legend", "plain_style", "style"]

# Okabe and Ito's colours, each with a marker of its own; a family keeps its own everywhere.
STYLES: Final = (
    ("#0072B2", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "v"), ("#E69F00", "P"),
    ("#56B4E9", "<"), ("#000000", "X"), ("#7F7F7F", ">"), ("#8C564B", "p"),
)  # fmt: skip
_STYLE: Final = dict(zip(FAMILIES, STYLES, strict=False)) | {"none": ("#000000", "o")}


def style(family: str) -> tuple[str, str]:
    """Colour and marker of a family."""
    return _STYLE.get(family, STYLES[-1])


def blank(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_style() -> AbstractContextManager[None]:
    """Text stays text, and without a salt the same run gives the same file."""
    import matplotlib as mpl

    return mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trilemma", "font.size": 9.0})


def band(
    axes: Axes, drawn: Sequence[tuple[float, Estimate]], colour: str, marker: str, **line: Any
) -> None:
    """A curve of (x, estimate) with its interval."""
    xs, found = [x for x, _ in drawn], [item for _, item in drawn]
    lows, highs = [item.low for item in found], [item.high for item in found]
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.2, linewidth=0)
    axes.plot(xs, [item.value for item in found], color=colour, marker=marker, **line)


def legend(figure: Figure, line: Sequence[Axes]) -> None:
    """One legend below all the plots, each entry once."""
    entries: dict[str, Any] = {}
    for axes in line:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=len(line) + 1,
            frameon=False,
        )
