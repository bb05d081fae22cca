"""The ladder: what is left of the metric at the strength that each rung takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.reporting.figures.style import blank, legend, style
from trilemma.reporting.words.ladder import RUNGS
from trilemma.reporting.words.protections import family

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.reporting.words.ladder import Ladder

__all__ = ["draw_ladder"]

_SURE: Final = ("tested", "proved", "key")


def draw_ladder(ladder: Ladder) -> Figure:
    """One line a family; filled where it was tested, open where it is an estimate."""
    figure = blank(7.2, 4.0)
    axes = figure.subplots()
    spread = max(1, len(ladder.families) - 1)
    for number, name in enumerate(ladder.families):
        colour, marker = style(name)
        shift = 0.5 * (number / spread - 0.5)
        own = [
            (ladder.rungs.index(each.knows) + shift, each.metric, each.mark)
            for each in ladder.steps
            if each.family == name and each.metric is not None and each.mark != "fails"
        ]
        if not own:
            continue
        axes.plot(
            [x for x, _, _ in own], [y for _, y, _ in own], color=colour, linewidth=0.8, alpha=0.6
        )
        for sure in (True, False):
            there = [(x, y) for x, y, mark in own if (mark in _SURE) == sure]
            axes.scatter(
                [x for x, _ in there], [y for _, y in there], marker=marker, s=36,
                edgecolors=colour, facecolors=colour if sure else "white", zorder=3,
                label=family(name) if there else None,
            )  # fmt: skip
    axes.set_xticks(range(len(ladder.rungs)), [RUNGS[each] for each in ladder.rungs])
    axes.set(
        xlim=(-0.5, len(ladder.rungs) - 0.5),
        xlabel="what the attacker knows (filled: tested, proved or by a key; open: estimate)",
        ylabel=ladder.metric,
    )
    axes.grid(alpha=0.3)
    legend(figure, [axes, axes])
    return figure
