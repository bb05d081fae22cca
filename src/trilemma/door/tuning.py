"""`trilemma.tune`: from a scenario and a budget to a verdict, with progress on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilemma.door.sources import source_of
from trilemma.reporting.page.page import write_report
from trilemma.tuning.request import Request
from trilemma.tuning.tune import tune as find
from trilemma.work.journal import Run
from trilemma.work.progress import Ticker

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["tune"]


def tune(
    scenario: Scenario | Callable[[], Scenario] | str,
    request: Request | None = None,
    *,
    out: Path | str | None = None,
    workers: int = 1,
    ray: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Verdict:
    """The protection that keeps the budget at the least cost: `tune(scenario, budget=0.3)`.

    `scenario` may be a Scenario, a function that makes one, or its name ("digits",
    "my_module:make_scenario"). Settings are those of a Request, by keyword or as one. With a
    folder `out`, the run is kept there with its verdict.json and its report.html, and the same
    call goes on where an interrupted one was. The `workers` are processes of this machine, or of
    the Ray cluster at the address `ray`. Progress goes to stderr, or below a notebook's
    cell, unless `quiet`.
    """
    source, asked = source_of(scenario), Request.of(request, settings)
    with Ticker("tune", quiet=quiet) as ticker:
        ticker.say("looking at the federation")
        if out is None:
            return find(source, asked, workers=workers, ray=ray, ticker=ticker)
        with Run.open(out, {"command": "tune", **asked.decides()}) as run:
            verdict = find(source, asked, run=run, workers=workers, ray=ray, ticker=ticker)
            verdict.save(run.folder / "verdict.json")
            write_report(verdict, run.folder)
    return verdict
