"""`trilemma tune`: from a budget to a protection and its strength, with the evidence."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trilemma import api
from trilemma.cli.common_options import interruptible, tell
from trilemma.cli.configuration import SettingsArgument, read_settings, with_flags
from trilemma.settings import Federated, run_folder
from trilemma.tuning.request import Request

__all__ = ["tune"]


@with_flags(Federated, Request)
def tune(
    settings: SettingsArgument = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print the tests, candidates and limits, too.")
    ] = False,
    **flags: Any,
) -> None:
    """Find the protection that keeps the budget at the least cost.

    Example: trilemma tune --scenario digits --budget 0.3 --workers 2 --out runs/first
    """
    from trilemma.execution.pool import keep_memory

    federated, request, running = read_settings(settings, flags, Federated, Request)
    folder = running.out or run_folder("tune", federated, request.decides())
    keep_memory()  # for what is done here, where there is one worker
    with interruptible(folder):
        verdict = api.tune(
            federated.scenario, request, out=folder, **running.work, **federated.given()
        )
    tell(verdict, folder, as_json=running.as_json, full=full)
    if verdict.protection is None:
        raise typer.Exit(1)
