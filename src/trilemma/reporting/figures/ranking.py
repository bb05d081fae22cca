"""The ranked candidates: leakage beside weighted cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.reporting.figures.style import blank
from trilemma.reporting.words.protection_text import family

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.tuning.results.verdict import Verdict

__all__ = ["draw_ranking"]


def draw_ranking(verdict: Verdict) -> Figure:
    """The ranked candidates: leakage beside weighted cost, both with intervals."""
    ranked = [candidate for candidate in verdict.candidates if candidate.rank is not None]
    figure = blank(7.2, 0.42 * len(ranked) + 1.3)
    leaks, costs = figure.subplots(1, 2, sharey=True)
    names = [f"{item.rank}{'=' if item.tied else ''}  {family(item.name)}" for item in ranked]
    for row, item in enumerate(ranked):
        for axes, found in ((leaks, item.leakage), (costs, item.objective)):
            if found is None:
                axes.annotate("rests on the key", (0, row), va="center", fontsize=8)
                continue
            spread = [[found.value - found.low], [found.high - found.value]]
            axes.errorbar([found.value], [row], xerr=spread, fmt="o", color="#0072B2", capsize=3)
    leaks.axvline(verdict.request.budget, color="black", linestyle=":", label="budget")
    leaks.set(xlim=(-0.03, 1.03), xlabel="leakage")
    leaks.set_yticks(range(len(ranked)), names)
    leaks.invert_yaxis()
    leaks.legend(frameon=False, fontsize=8)
    costs.set_xscale("symlog", linthresh=0.01)
    costs.set_xlabel("weighted cost")
    costs.margins(x=0.1)
    for axes in (leaks, costs):
        axes.grid(alpha=0.3, axis="x")
    return figure
