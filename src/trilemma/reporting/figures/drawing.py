"""The report's plots as files for papers and slides: vector text, safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from trilemma.errors import InvalidInput
from trilemma.reporting.panels import Mark, Panel, bare_panels, front_places, verdict_panels
from trilemma.reporting.sources import read_run
from trilemma.tuning.choosing.families import FAMILIES
from trilemma.tuning.results.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trilemma.estimation.leakage import Estimate
    from trilemma.tuning.fronts.pareto import Front
    from trilemma.tuning.fronts.points import Evaluated

__all__ = ["draw_figures"]

Format = Literal["svg", "png", "both"]

# Okabe and Ito's colours, each with a marker of its own; a mechanism keeps its own everywhere.
_STYLES: Final = (
    ("#0072B2", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "v"), ("#E69F00", "P"),
    ("#56B4E9", "<"), ("#000000", "X"), ("#7F7F7F", ">"),
)  # fmt: skip
_STYLE: Final = dict(zip(FAMILIES, _STYLES, strict=True)) | {"none": ("#000000", "o")}


def draw_figures(run: Path, folder: Path | None = None, form: Format = "svg") -> list[Path]:
    """Draw what a run has to show; the files, in the order of the page."""
    import matplotlib as mpl

    found = read_run(run)
    target = folder or found.folder / "figures"
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot write to {target} ({error.strerror}); choose another --out."
        ) from None
    drawn = _verdict(found.result) if isinstance(found.result, Verdict) else _front(found.result)
    files = []
    # Text stays text, and without a salt or a date the same run gives the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trilemma", "font.size": 9.0}):
        for name, draw in drawn.items():
            figure = draw()
            for kind in ("svg", "png") if form == "both" else (form,):
                files.append(target / f"{name}.{kind}")
                figure.savefig(
                    files[-1], dpi=200, metadata={"Date": None} if kind == "svg" else None
                )
    return files


Drawings = Mapping[str, Callable[[], "Figure"]]


def _verdict(verdict: Verdict) -> Drawings:
    budget = verdict.problem.budget
    drawn: dict[str, Callable[[], Figure]] = {}
    if verdict.curves:
        drawn |= _curves(verdict.curves, verdict_panels(verdict), budget)
        drawn["front"] = lambda: _draw_front(verdict.curves, front_places(verdict.curves))
    drawn["ranking"] = lambda: _draw_ranking(verdict)
    return drawn


def _front(front: Front) -> Drawings:
    return {
        **_curves(front.points, bare_panels(front.points), None),
        "front": lambda: _draw_front(front.points, front.front),
    }


def _curves(
    points: Sequence[Evaluated], panels: Sequence[Panel], budget: float | None
) -> dict[str, Callable[[], Figure]]:
    if not panels:
        return {}
    return {
        "leakage": lambda: _draw_leakage(points, panels, budget),
        "costs": lambda: _draw_costs(points, panels),
    }


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw_leakage(
    points: Sequence[Evaluated], panels: Sequence[Panel], budget: float | None
) -> Figure:
    figure = _figure(3.1 * len(panels) + 0.6, 3.0)
    line = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(line, panels, strict=True):
        _band(axes, points, panel, lambda each: each.leakage)
        if budget is not None:
            axes.axhline(budget, color="black", linestyle=":", linewidth=1, label="budget")
        if panel.predicted:
            inside = [each for each in panel.predicted if 0 <= each[0] <= 1]
            axes.plot(*zip(*inside, strict=True), "--", color="0.4", label="Fisher prediction")
        for mark in panel.marks:
            _mark(axes, mark)
        axes.set(ylim=(-0.03, 1.03), title=panel.mechanism)
        _ticks(axes, panel)
    line[0].set_ylabel("leakage")
    _legend(figure, line)
    return figure


def _mark(axes: Axes, mark: Mark) -> None:
    """A tested value with its interval, or a line; what lies beyond the axis is an arrow."""
    if mark.kind in ("verdict", "tested") and mark.leakage is not None and 0 <= mark.x <= 1:
        found = mark.leakage
        axes.errorbar(
            [mark.x], [found.value], [[found.value - found.low], [found.high - found.value]],
            fmt="D", color="black", zorder=3,
            markerfacecolor="black" if mark.kind == "verdict" else "white",
            label="verdict" if mark.kind == "verdict" else "tested with fresh units",
        )  # fmt: skip
        return
    name = "γ*, the paper's optimum" if mark.kind == "surrogate" else mark.kind
    style = "-." if mark.kind == "surrogate" else "-"
    x = min(1.0, max(0.0, mark.x))
    axes.axvline(x, color="#8C3A00", linestyle=style, linewidth=1.2, label=name)
    if x != mark.x:
        axes.plot([x], [0.97], "<" if x == 0 else ">", color="#8C3A00", ms=7)


def _draw_costs(points: Sequence[Evaluated], panels: Sequence[Panel]) -> Figure:
    figure = _figure(3.1 * len(panels) + 0.6, 5.0)
    upper, lower = figure.subplots(2, len(panels), squeeze=False, sharey="row")
    bare = next((each for each in points if each.mechanism == "none"), None)
    for number, panel in enumerate(panels):
        colour, marker = _style(panel.mechanism)
        _band(upper[number], points, panel, lambda each: each.utility_loss)
        upper[number].set_title(panel.mechanism)
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
                    label=f"{what} of a round",
                )  # fmt: skip
        lower[number].set_yscale("log")
        for axes in (upper[number], lower[number]):
            _ticks(axes, panel)
    upper[0].set_ylabel("utility loss")
    lower[0].set_ylabel("× unprotected")
    _legend(figure, lower)
    return figure


def _band(
    axes: Axes,
    points: Sequence[Evaluated],
    panel: Panel,
    estimate: Callable[[Evaluated], Estimate | None],
) -> None:
    colour, marker = _style(panel.mechanism)
    found = [(x, estimate(points[place])) for x, place in panel.points]
    drawn = [(x, each) for x, each in found if each is not None]
    xs = [x for x, _ in drawn]
    lows, highs = [e.low for _, e in drawn], [e.high for _, e in drawn]
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.2, linewidth=0)
    axes.plot(xs, [e.value for _, e in drawn], color=colour, marker=marker, ms=3)


def _style(mechanism: str) -> tuple[str, str]:
    return _STYLE.get(mechanism, _STYLES[-1])


def _ticks(axes: Axes, panel: Panel) -> None:
    places, labels = zip(*panel.axis.ticks(), strict=True)
    axes.set_xticks(places, labels)
    axes.set(xlim=(-0.04, 1.04), xlabel=panel.symbol)
    axes.grid(alpha=0.3)


def _legend(figure: Figure, line: Sequence[Axes]) -> None:
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


def _draw_front(points: Sequence[Evaluated], front: Sequence[int]) -> Figure:
    """Leakage against utility loss; the length of a round as colour, the front filled."""
    from matplotlib.colors import LogNorm

    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    able = [n for n, each in enumerate(points) if each.objectives is not None]
    # A colour scale in decades needs positive ends.
    lengths = {n: min(1e6, max(1e-6, 1 + _value(points[n].efficiency_reduction))) for n in able}
    norm = LogNorm(min(0.5, *lengths.values()), max(2.0, *lengths.values()))
    shade = None
    for mechanism in dict.fromkeys(points[n].mechanism for n in able):
        _, marker = _style(mechanism)
        own = [n for n in able if points[n].mechanism == mechanism]
        rest, best = [n for n in own if n not in front], [n for n in own if n in front]
        axes.scatter(
            *_places(points, rest), marker=marker, s=18, facecolors="none", edgecolors="0.6",
            label=mechanism,
        )  # fmt: skip
        shade = axes.scatter(
            *_places(points, best), marker=marker, s=52, c=[lengths[n] for n in best], norm=norm,
            cmap="cividis", edgecolors="black", linewidths=0.8,
        )  # fmt: skip
    axes.set(xlabel="leakage", ylabel="utility loss", xlim=(-0.03, 1.03))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    if shade is not None:
        figure.colorbar(shade, ax=axes, label="a round takes (× unprotected)")
    return figure


def _places(points: Sequence[Evaluated], own: Sequence[int]) -> tuple[list[float], list[float]]:
    return (
        [_value(points[n].leakage) for n in own],
        [_value(points[n].utility_loss) for n in own],
    )


def _value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value


def _draw_ranking(verdict: Verdict) -> Figure:
    """The ranked candidates: leakage beside weighted cost, both with intervals."""
    ranked = [each for each in verdict.candidates if each.rank is not None]
    figure = _figure(7.2, 0.42 * len(ranked) + 1.3)
    leaks, costs = figure.subplots(1, 2, sharey=True)
    names = [f"{each.rank}{'=' if each.tied else ''}  {each.name}" for each in ranked]
    for row, each in enumerate(ranked):
        for axes, found in ((leaks, each.leakage), (costs, each.objective)):
            if found is None:
                axes.annotate("rests on the key", (0, row), va="center", fontsize=8)
                continue
            spread = [[found.value - found.low], [found.high - found.value]]
            axes.errorbar([found.value], [row], xerr=spread, fmt="o", color="#0072B2", capsize=3)
    leaks.axvline(verdict.problem.budget, color="black", linestyle=":", label="budget")
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
