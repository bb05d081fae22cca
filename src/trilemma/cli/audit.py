"""`trilemma audit`: what the setting that somebody runs buys."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from trilemma import api
from trilemma.cli.common_options import interruptible, show_or_dump
from trilemma.cli.configuration import read_settings, with_flags
from trilemma.settings import Audited, Federated, run_folder

__all__ = ["audit"]


@with_flags(Federated, Audited)
def audit(
    setting: Annotated[
        str,
        typer.Argument(
            help="A protection, a framework's arguments, a Flower app, a privacy.json or a job."
        ),
    ],
    **flags: Any,
) -> None:
    """What does the setting I run buy? Exit status 0 where it keeps the budget, 1 where not.

    Examples: trilemma audit nvflare.SVTPrivacy:epsilon=0.1,fraction=0.1; trilemma audit
    flower.LocalDpMod:clipping_norm=1,sensitivity=1e-4,epsilon=10,delta=1e-5; trilemma audit
    my-app/pyproject.toml --json
    """
    federated, asked, running = read_settings(None, flags, Federated, Audited)
    decides = {"setting": setting, **asked.model_dump(mode="json")}
    folder = running.out or run_folder("audit", federated, decides)
    with interruptible(folder):
        found = api.audit(
            federated.scenario,
            setting,
            **asked.given(),
            out=folder,
            **running.work,
            **federated.given(),
        )
    from trilemma.reporting.words.audit_text import show_audit

    show_or_dump(found.as_json(), running, partial(show_audit, found), f"run folder {folder}")
    if not found.keeps:
        raise typer.Exit(1)
