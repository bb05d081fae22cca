"""`trilemma pareto`: the front of leakage, utility and efficiency, where no weights are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from trilemma.commands.measuring import resumable, run_folder, tell
from trilemma.commands.settings import (
    Federated,
    Searched,
    SettingsArgument,
    command_line,
    read_settings,
    with_flags,
)
from trilemma.tuning.request import NOT_OF_A_FRONT, Request

__all__ = ["pareto"]

_STUDY: Final = "study.sqlite"


@with_flags(Federated, Request, Searched, leave_out=NOT_OF_A_FRONT)
def pareto(
    settings: SettingsArgument = None,
    storage: Annotated[
        str | None,
        typer.Option(help="Database URL of a study that machines share [a file in the folder]."),
    ] = None,
    **flags: Any,
) -> None:
    """Measure the front of leakage, utility and efficiency, where no weights are known.

    Example: trilemma pareto --scenario digits --evaluations 32 --workers 2 --out runs/front
    """
    federated, request, searched, running = read_settings(
        settings, flags, Federated, Request, Searched
    )
    # What decides a point: not how many there are, nor where the study is, nor the workers.
    described = {
        "command": "pareto",
        **federated.model_dump(mode="json"),
        **request.decides(NOT_OF_A_FRONT),
        **searched.model_dump(mode="json", exclude={"evaluations"}),
    }
    folder = running.out or run_folder("pareto", federated.scenario, described)
    again = command_line("pareto", federated, request, searched)
    from trilemma.work.files import sqlite_url
    from trilemma.work.progress import Ticker

    with resumable(folder, described, fresh=running.fresh) as run, Ticker("pareto") as ticker:
        ticker.say(f"reading {federated.scenario}")
        from trilemma.tuning.fronts.pareto import pareto as measure  # imports torch, for seconds
        from trilemma.tuning.results.front import Front

        def save(found: Front) -> Front:
            whole = replace(found, reproduce=again)
            whole.save(folder / "pareto.json")
            return whole

        if running.fresh:
            (folder / _STUDY).unlink(missing_ok=True)
        front = measure(
            federated.source(),
            request,
            **searched.model_dump(),
            storage=storage or sqlite_url(folder / _STUDY),
            shared=storage is not None,
            run=run,
            ticker=ticker,
            report=save,
            **running.crew,
        )
        front = save(front)
        from trilemma.reporting.page.page import write_report

        page = write_report(front, folder)
    tell(front, file=folder / "pareto.json", page=page, as_json=running.as_json)
