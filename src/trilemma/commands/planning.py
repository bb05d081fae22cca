"""What `tune` and `pareto` share: their options, and what both hand on to the measurement."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from trilemma.commands.settings import Settings
    from trilemma.work.journal import Run

__all__ = [
    "AdversaryOption",
    "AttacksOption",
    "BandwidthOption",
    "ConfidenceOption",
    "OwnScenarioOption",
    "RoundsOption",
    "SeedsOption",
    "SettingsArgument",
    "StartsOption",
    "ZeroSeedOption",
    "measurement",
]

SettingsArgument = Annotated[
    Path | None, typer.Argument(help="Settings; trilemma.toml is read where it is there.")
]
OwnScenarioOption = Annotated[
    str | None, typer.Option(help="A ready-made scenario, or module:function [digits].")
]
AttacksOption = Annotated[
    str | None, typer.Option(help="Attacks that bind, joined by commas [dlg and such].")
]
AdversaryOption = Annotated[
    Literal["server", "client"] | None, typer.Option(help="Who is curious [server].")
]
ConfidenceOption = Annotated[
    float | None, typer.Option(help="Of the budget's claim, or of a point's intervals [0.95].")
]
BandwidthOption = Annotated[float | None, typer.Option(help="Bits a second [1e8].")]
StartsOption = Annotated[
    int | None, typer.Option(help="The attack keeps the best of so many starts [3].")
]
RoundsOption = Annotated[int | None, typer.Option(help="Of each training [150].")]
SeedsOption = Annotated[int | None, typer.Option(help="Paired trainings [5].")]
ZeroSeedOption = Annotated[int | None, typer.Option(help="Same seed, same numbers [0].")]


def measurement(chosen: Settings, run: Run) -> dict[str, Any]:
    """The arguments that `trilemma.tuning.tune` and `measure_front` both take."""
    from trilemma.beliefs.recovery import Criterion
    from trilemma.observations import Adversary
    from trilemma.scenarios import load_scenario
    from trilemma.tuning.plan import Effort

    return {
        "source": partial(load_scenario, chosen.scenario, **chosen.scenario_options()),
        "attacks": chosen.attacks,
        "adversary": Adversary(chosen.adversary),
        "confidence": chosen.confidence,
        "bandwidth": chosen.bandwidth,
        "criterion": Criterion.parse(chosen.success) if chosen.success else None,
        "effort": Effort(
            restarts=chosen.restarts,
            rounds=chosen.rounds,
            seeds=chosen.seeds,
            certified_rounds=chosen.certified_rounds,
            kappa=chosen.kappa,
            clip=chosen.clip,
            population=chosen.population,
            strengths=chosen.strengths,
        ),
        "seed": chosen.seed,
        "run": run,
        "data_key": run.key("data"),
    }
