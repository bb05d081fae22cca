"""`trilemma pareto`: the front of leakage, utility and efficiency, where no weights are known."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal

import typer
from pydantic import Field

from trilemma.commands.measuring import (
    FreshOption,
    JsonOption,
    OutOption,
    WorkersOption,
    resumable,
    run_folder,
)
from trilemma.commands.settings import Federated, command_line, read_settings, with_flags
from trilemma.commands.tune import SettingsArgument
from trilemma.tuning.request import Request, Settings

__all__ = ["pareto"]

_STUDY: Final = "study.sqlite"
# A front has no budget and no weights, and claims nothing.
_NOT_ASKED: Final = (
    "budget", "basis", "utility_weight", "efficiency_weight", "max_utility_loss", "max_cost",
    "strengths", "ladder", "helpers", "person", "threshold", "participation",
)  # fmt: skip


class Searched(Settings):
    """How the front is searched."""

    evaluations: int = Field(
        32, description="Points to measure in all; a larger number goes on later."
    )
    units: int = Field(48, description="Games to play at each point.")
    sampler: Literal["grid", "motpe", "nsga2"] = Field(
        "grid", description="What picks the next point."
    )


@with_flags(Federated, Request, Searched, leave_out=_NOT_ASKED)
def pareto(
    settings: SettingsArgument = None,
    storage: Annotated[
        str | None,
        typer.Option(help="Database URL of a study that machines share [a file in the folder]."),
    ] = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
    **flags: Any,
) -> None:
    """Measure the front of leakage, utility and efficiency, where no weights are known.

    Example: trilemma pareto --scenario digits --evaluations 32 --workers 2 --out runs/front
    """
    from trilemma.errors import printable

    federated, request, searched = read_settings(settings, flags, Federated, Request, Searched)
    # What decides a point: not how many there are, nor where the study is, nor the workers.
    described = {
        "command": "pareto",
        **federated.model_dump(mode="json"),
        **request.model_dump(mode="json", exclude=set(_NOT_ASKED)),
        **searched.model_dump(mode="json", exclude={"evaluations"}),
    }
    named = run_folder("pareto", federated.scenario, described)
    folder = out or named
    again = command_line("pareto", federated, request, searched)
    from trilemma.work.files import sqlite_url
    from trilemma.work.progress import Ticker

    with resumable(folder, described, fresh=fresh) as run, Ticker("pareto") as ticker:
        from trilemma.scenarios import load_scenario
        from trilemma.tuning.fronts.pareto import pareto as measure
        from trilemma.tuning.results.front import Front

        def save(found: Front) -> Front:
            whole = replace(found, reproduce=again)
            whole.save(folder / "pareto.json")
            return whole

        if fresh:
            (folder / _STUDY).unlink(missing_ok=True)
        front = measure(
            partial(load_scenario, federated.scenario, **federated.options()),
            request,
            evaluations=searched.evaluations,
            units=searched.units,
            sampler=searched.sampler,
            storage=storage or sqlite_url(folder / _STUDY),
            study=named.name,
            shared=storage is not None,
            run=run,
            data_key=run.key("data"),
            workers=workers,
            ticker=ticker,
            report=save,
        )
        front = save(front)
        from trilemma.reporting.page.page import write_report

        page = write_report(front, folder)
    if as_json:
        print(json.dumps(front.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.words.front import show_front

        show_front(front)
        print(f"\nfront: {printable(folder / 'pareto.json')}\nreport: {printable(page)}")
