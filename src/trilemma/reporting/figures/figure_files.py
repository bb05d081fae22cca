"""Which figures a run has to show, and the files they are written to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trilemma.errors import InvalidInput
from trilemma.execution.run_files import new_folder
from trilemma.paper_framework.paper_result import Paper
from trilemma.reporting.figures.curve_figures import draw_costs, draw_leakage
from trilemma.reporting.figures.front_figure import draw_front
from trilemma.reporting.figures.paper_figure import draw_trade_off
from trilemma.reporting.figures.ranking import draw_ranking
from trilemma.reporting.figures.rounds_figure import draw_rounds
from trilemma.reporting.figures.style import plain_style
from trilemma.reporting.figures.trade_off_figure import draw_success
from trilemma.reporting.page.panels import bare_panels, front_places, verdict_panels
from trilemma.reporting.page.rounds_plot import rounds_series
from trilemma.reporting.run_results import Earlier, read_run
from trilemma.reporting.words.answer import metric_name
from trilemma.tuning.results.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trilemma.reporting.page.panels import Panel
    from trilemma.tuning.results.points import Point

__all__ = ["draw_figures"]

Format = Literal["svg", "png", "both"]
Drawings = Mapping[str, Callable[[], "Figure"]]


def draw_figures(run: Path, folder: Path | None = None, form: Format = "svg") -> list[Path]:
    """Draw what a run has to show; the files, in the order of the page."""
    result, own = read_run(run)
    if isinstance(result, Earlier):
        raise InvalidInput(
            f"{run} holds a verdict of schema {result.version}, which has no figures any more; "
            f"trilemma report shows its values."
        )
    target = new_folder(folder or own / "figures")
    drawn: Drawings
    if isinstance(result, Verdict):
        drawn = _verdict(result)
    elif isinstance(result, Paper):
        drawn = {"trade-off": partial(draw_trade_off, result)}
    else:
        drawn = _curves(
            result.points, bare_panels(result.points), result.front, None, result.federation.metric
        )
    files = []
    with plain_style():
        for name, draw in drawn.items():
            figure = draw()
            for kind in ("svg", "png") if form == "both" else (form,):
                files.append(target / f"{name}.{kind}")
                figure.savefig(
                    files[-1], dpi=200, metadata={"Date": None} if kind == "svg" else None
                )
    return files


def _verdict(verdict: Verdict) -> Drawings:
    budget = verdict.request.budget
    drawn: dict[str, Callable[[], Figure]] = {}
    if verdict.figure is not None:
        drawn["success"] = partial(draw_success, verdict.figure)
    if series := rounds_series(verdict.rounds):
        drawn["rounds"] = lambda: draw_rounds(series, budget)
    if verdict.curves:
        places, own = front_places(verdict.curves), verdict.federation.metric
        drawn |= _curves(verdict.curves, verdict_panels(verdict), places, budget, own)
    drawn["ranking"] = lambda: draw_ranking(verdict)
    return drawn


def _curves(
    points: Sequence[Point],
    panels: Sequence[Panel],
    front: Sequence[int],
    budget: float | None,
    own: str,
) -> Drawings:
    metric = metric_name((point.metric for point in points), own)
    curves: Drawings = {
        "leakage": lambda: draw_leakage(points, panels, budget),
        "costs": lambda: draw_costs(points, panels, metric),
    }
    return {**(curves if panels else {}), "front": lambda: draw_front(points, front, metric)}
