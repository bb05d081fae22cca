"""`trilemma paper`: the paper's algorithm in one command."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from trilemma import api
from trilemma.cli.common_options import SuccessOption, print_json
from trilemma.cli.configuration import SettingsArgument, read_settings, with_flags
from trilemma.cli.estimate import AttemptsOption, ModelsOption
from trilemma.settings import Federated, run_folder
from trilemma.tuning.request import Settings, Weights

__all__ = ["paper"]


class Goal(Settings):
    """What Algorithm 1 solves for."""

    budget: float = Field(0.3, description="Largest tolerated leakage.")
    utility_weight: Weights = Field(1.0, description="η_u, or one a client joined by commas.")
    efficiency_weight: Weights = Field(0.01, description="η_e, or one a client, by commas.")
    max_utility_loss: float | None = Field(None, description="Cap on ε_u (equation 8).")
    max_cost: float | None = Field(None, description="Cap on ε_e.")
    seed: int = Field(0, description="Same seed, same numbers.")


@with_flags(Federated, Goal, leave_out=("workers", "ray", "fresh"))
def paper(
    settings: SettingsArgument = None,
    form: Annotated[
        Literal["printed", "corrected", "tight", "all"],
        typer.Option(help="printed: the paper's letter; corrected: its intent; tight: better TV."),
    ] = "all",
    models: ModelsOption = 5,
    attempts: AttemptsOption = 10,
    success: SuccessOption = None,
    **flags: Any,
) -> None:
    """The paper's algorithm: C1, xi, C2, all four optima, and what is measured there.

    Example: trilemma paper --scenario digits --budget 0.3 --out runs/paper
    """
    from trilemma.errors import printable
    from trilemma.reporting.words.paper_tables import show_paper

    federated, goal, running = read_settings(settings, flags, Federated, Goal)
    effort = {"form": form, "models": models, "attempts": attempts, "success": success}
    folder = running.out or run_folder("paper", federated, goal.model_dump() | effort)
    try:
        found = api.paper(
            federated.scenario,
            form=form,
            success=success,
            models=models,
            attempts=attempts,
            out=folder,
            **goal.model_dump(),
            **federated.given(),
        )
    except KeyboardInterrupt:
        print("trilemma: interrupted; nothing is kept of it.", file=sys.stderr)
        raise typer.Exit(130) from None
    if running.as_json:
        print_json(found.as_json())
        return
    show_paper(found)
    print(
        f"\npaper: {printable(folder / found.file)}\nreport: {printable(folder / 'report.html')}"
        f"\nfigures: {printable(folder / 'figures')}"
    )
