"""What a verdict shows of itself: a line, a summary, figures and a frame.

Pictures and words are made in reporting/, above this package; it is asked by its name, so that
nothing here depends on it until a notebook shows a verdict.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Shown"]


class Shown:
    """What a result can show of itself."""

    def __repr__(self) -> str:
        return str(_notebook().short(self))

    def _repr_html_(self) -> str:
        return str(_notebook().verdict_cell(self))

    def summary(self) -> str:
        """The answer, its costs and its limits, in at most 23 lines of 80 columns."""
        return str(_notebook().summary(self))

    def plot_leakage(self) -> Figure:
        """Of a proof success against accuracy; else what leaks, by strength, rounds or family."""
        figure: Figure = _notebook().leakage_figure(self)
        return figure

    def to_frame(self) -> Any:
        """The candidates as a pandas frame, the best first."""
        return _notebook().frame(self)


def _notebook() -> Any:
    return import_module("trilemma.reporting.notebook")
