"""`trilemma tune`: from a budget to a protection and its strength, with the evidence."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import typer

from trilemma.commands.measuring import resumable, run_folder, tell
from trilemma.commands.settings import (
    Federated,
    Running,
    SettingsArgument,
    command_line,
    read_settings,
    with_flags,
)
from trilemma.tuning.request import Request

if TYPE_CHECKING:
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.work.journal import Run

__all__ = ["tune"]


@with_flags(Federated, Request)
def tune(settings: SettingsArgument = None, **flags: Any) -> None:
    """Find the protection that keeps the budget at the least cost.

    Example: trilemma tune --scenario digits --budget 0.3 --workers 2 --out runs/first
    """
    federated, request, running = read_settings(settings, flags, Federated, Request)
    described: dict[str, Any] = {
        "command": "tune",
        **federated.model_dump(mode="json"),
        **request.decides(),
    }
    folder = running.out or run_folder("tune", federated.scenario, described)
    with resumable(folder, described, fresh=running.fresh) as run:
        if running.fresh:
            for name in ("verdict.json", "gallery.json", "report.html"):
                (folder / name).unlink(missing_ok=True)
        again = command_line("tune", federated, request)
        verdict = replace(
            _tuned(federated, request, run, running),
            source={"scenario": federated.scenario, **federated.options()},
            reproduce=again,
        )
        verdict.save(folder / "verdict.json")
        from trilemma.reporting.page.page import write_report

        page = write_report(verdict, folder)
    tell(verdict, file=folder / "verdict.json", page=page, as_json=running.as_json)
    if verdict.protection is None:
        raise typer.Exit(1)


def _tuned(federated: Federated, request: Request, run: Run, running: Running) -> Verdict:
    from trilemma.work.executors import for_good, keep_memory, prepared
    from trilemma.work.progress import Ticker

    several = running.workers > 1 and running.ray is None
    # more than the machine has cores would only keep each other from starting
    workers = min(running.workers, os.cpu_count() or 1) if several else 0
    needed = ("trilemma.estimation.bench", "trilemma.learning.warm", "trilemma.scenarios")
    ready = prepared(workers, *needed, device=federated.device or "cpu")
    keep_memory()  # for what is done here, where there is one worker
    with Ticker("tune") as ticker, ready:
        ticker.say(f"reading {federated.scenario}")
        with for_good():
            from trilemma.tuning.tune import tune as find  # imports torch, which takes seconds

        def answered() -> None:  # from here on this process waits for the last tasks
            with suppress(RuntimeError):  # no thread to be had: then it is read when it is needed
                Thread(target=_prepare_page, daemon=True).start()

        asked = federated.source(), request
        return find(*asked, run=run, ticker=ticker, answered=answered, **running.crew)


def _prepare_page() -> None:
    with suppress(Exception):  # it fails again, and is told, when the page is written
        from trilemma.reporting.page.page import read_templates

        read_templates()
