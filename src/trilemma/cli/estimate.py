"""`trilemma estimate`: the paper's Algorithms 2 to 4, from unprotected updates to C₁, ξ and C₂."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trilemma import api
from trilemma.cli.common_options import (
    AttackOption,
    SuccessOption,
    interruptible,
    show_or_dump,
)
from trilemma.cli.configuration import SettingsArgument, read_settings, with_flags
from trilemma.settings import Effort, Federated, run_folder

__all__ = ["AttemptsOption", "ModelsOption", "estimate"]

ModelsOption = Annotated[int, typer.Option(help="M, models at which every client is attacked.")]
AttemptsOption = Annotated[int, typer.Option(help="T, attacks on each update.")]


@with_flags(Federated, Effort, leave_out=("restarts",))
def estimate(
    settings: SettingsArgument = None,
    attack: AttackOption = "dlg",
    models: ModelsOption = 5,
    attempts: AttemptsOption = 10,
    success: SuccessOption = None,
    profile: Annotated[
        Path | None, typer.Option(help="Write C1, C2, m, delta and sigmas for trilemma solve.")
    ] = None,
    literal: Annotated[
        bool,
        typer.Option(
            "--literal",
            help="Also by Algorithm 3's letter: attacked at w', records paired by position.",
        ),
    ] = False,
    **flags: Any,
) -> None:
    """Attack unprotected updates and estimate the paper's constants (Algorithms 2 to 4).

    Example: trilemma estimate --scenario digits --clients 4 --profile digits.npz
    """
    federated, effort, running = read_settings(settings, flags, Federated, Effort)
    asked: dict[str, Any] = {
        "attack": attack,
        "models": models,
        "attempts": attempts,
        "success": success,
        "seed": effort.seed,
    }
    folder = running.out or run_folder("estimate", federated, asked)
    with interruptible(folder):
        found = api.estimate(
            federated.scenario,
            **asked,
            literal=literal,
            profile=profile,
            out=folder,
            **running.work,
            **federated.given(),
        )
    from trilemma.reporting.words.paper_tables import show_estimate

    def show() -> None:
        show_estimate(found.headline, found.constants, found.literal)
        if found.half_point is not None:
            print(
                f"Predicted: noise of variance {found.half_point:.3g} hides half of the records "
                f"from an attacker\nwithout a prior (Fisher information; no claim rests on it)."
            )

    show_or_dump(found.as_json(), running, show, f"run folder {folder}")
