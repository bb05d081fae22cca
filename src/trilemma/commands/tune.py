"""`trilemma tune`: from a budget to a protection and its strength, with the evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilemma.commands.measuring import (
    FreshOption,
    JsonOption,
    OutOption,
    WorkersOption,
    resumable,
    run_folder,
)
from trilemma.commands.settings import Federated, command_line, read_settings, with_flags
from trilemma.errors import printable
from trilemma.tuning.request import Request

if TYPE_CHECKING:
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.work.journal import Run

__all__ = ["SettingsArgument", "tune"]

SettingsArgument = Annotated[
    Path | None, typer.Argument(help="A file of settings [trilemma.toml, if it exists].")
]


@with_flags(Federated, Request)
def tune(
    settings: SettingsArgument = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
    **flags: Any,
) -> None:
    """Find the protection that keeps the budget at the least cost.

    Example: trilemma tune --scenario digits --budget 0.3 --workers 2 --out runs/first
    """
    federated, request = read_settings(settings, flags, Federated, Request)
    # Curves decide no number of the others: a run may go on to have them, or more of them.
    described: dict[str, Any] = {
        "command": "tune",
        **federated.model_dump(mode="json"),
        **request.model_dump(mode="json", exclude={"strengths", "ladder"}),
    }
    folder = out or run_folder("tune", federated.scenario, described)
    with resumable(folder, described, fresh=fresh) as run:
        if fresh:
            for name in ("verdict.json", "gallery.json", "report.html"):
                (folder / name).unlink(missing_ok=True)
        again = command_line("tune", federated, request)
        verdict = replace(
            _tuned(federated, request, run, workers),
            source={"scenario": federated.scenario, **federated.options()},
            reproduce=again,
        )
        verdict.save(folder / "verdict.json")
        from trilemma.reporting.page.page import write_report

        page = write_report(verdict, folder)
    if as_json:
        print(json.dumps(verdict.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.words.verdict import show_verdict

        show_verdict(verdict)
        print(f"\nverdict: {printable(folder / 'verdict.json')}\nreport: {printable(page)}")
    if verdict.protection is None:
        raise typer.Exit(1)


def _tuned(federated: Federated, request: Request, run: Run, workers: int) -> Verdict:
    from trilemma.scenarios import load_scenario
    from trilemma.tuning.tune import tune as find
    from trilemma.work.progress import Ticker

    source = partial(load_scenario, federated.scenario, **federated.options())
    with Ticker("tune") as ticker:
        return find(
            source, request, run=run, data_key=run.key("data"), workers=workers, ticker=ticker
        )
