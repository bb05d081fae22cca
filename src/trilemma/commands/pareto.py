"""`trilemma pareto`: what leakage, utility and efficiency can be had together."""

# Flags reach the settings by their names, through the context.
# ruff: noqa: ARG001

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import typer

from trilemma.commands.measuring import (
    AlphaOption,
    BatchOption,
    ClientsOption,
    DataOption,
    DeviceOption,
    FreshOption,
    JsonOption,
    OutOption,
    SuccessOption,
    WorkersOption,
    resumable,
    run_folder,
)
from trilemma.commands.planning import (
    AdversaryOption,
    AttacksOption,
    BandwidthOption,
    ConfidenceOption,
    OwnScenarioOption,
    RoundsOption,
    SeedsOption,
    SettingsArgument,
    StartsOption,
    ZeroSeedOption,
    measurement,
)

__all__ = ["pareto"]

_RELEVANT: Final = {
    "scenario", "data", "clients", "batch", "alpha", "device", "confidence", "bandwidth",
    "mechanisms", "attacks", "adversary", "success", "restarts", "rounds", "seeds", "seed",
}  # fmt: skip
_OWN: Final[Mapping[str, Any]] = {"evaluations": 32, "units": 48, "sampler": "grid"}
_STUDY: Final = "study.sqlite"


def pareto(
    context: typer.Context,
    settings: SettingsArgument = None,
    scenario: OwnScenarioOption = None,
    data: DataOption = None,
    clients: ClientsOption = None,
    batch: BatchOption = None,
    alpha: AlphaOption = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(help="Names, joined by commas; an unknown one lists them [deployable]."),
    ] = None,
    attacks: AttacksOption = None,
    adversary: AdversaryOption = None,
    evaluations: Annotated[
        int, typer.Option(help="Points to measure in all; a larger number goes on later.")
    ] = _OWN["evaluations"],
    units: Annotated[int, typer.Option(help="Updates to attack at each point.")] = _OWN["units"],
    sampler: Annotated[
        Literal["grid", "motpe", "nsga2"], typer.Option(help="What picks the next point.")
    ] = _OWN["sampler"],
    storage: Annotated[
        str | None,
        typer.Option(help="Database URL of a study that machines share [a file in the folder]."),
    ] = None,
    confidence: ConfidenceOption = None,
    bandwidth: BandwidthOption = None,
    success: SuccessOption = None,
    restarts: StartsOption = None,
    rounds: RoundsOption = None,
    seeds: SeedsOption = None,
    seed: ZeroSeedOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the front of leakage, utility and efficiency, where no weights are known.

    Example: trilemma pareto --scenario digits --evaluations 32 --workers 2 --out runs/front
    """
    from trilemma.commands.settings import Settings, command_line, read_settings
    from trilemma.errors import printable
    from trilemma.work.files import sqlite_url
    from trilemma.work.progress import Ticker

    chosen = read_settings(settings, context.params)
    values = {name: value for name, value in chosen if name in _RELEVANT}
    again = command_line(
        "pareto",
        {**values, **{name: context.params[name] for name in _OWN}},
        {**dict(Settings()), **_OWN},
    )
    # What decides a point: not how many there are, nor where the study is, nor the workers.
    described = {
        "command": "pareto",
        **chosen.model_dump(mode="json", include=_RELEVANT),
        "units": units,
        "sampler": sampler,
    }
    named = run_folder("pareto", chosen.scenario, described)
    folder = out or named
    with resumable(folder, described, fresh=fresh) as run, Ticker("pareto") as ticker:
        from trilemma.tuning.fronts.pareto import Front, measure_front

        def save(found: Front) -> Front:
            whole = replace(found, reproduce=again)
            whole.save(folder / "pareto.json")
            return whole

        if fresh:
            (folder / _STUDY).unlink(missing_ok=True)
        front = measure_front(
            mechanisms=chosen.mechanisms,
            evaluations=evaluations,
            units=units,
            sampler=sampler,
            storage=storage or sqlite_url(folder / _STUDY),
            study=named.name,
            shared=storage is not None,
            workers=workers,
            ticker=ticker,
            report=save,
            **measurement(chosen, run),
        )
        front = save(front)
        from trilemma.reporting.page import write_report

        page = write_report(folder)
    if as_json:
        print(json.dumps(front.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.front import show_front

        show_front(front)
        print(f"\nfront: {printable(folder / 'pareto.json')}\nreport: {printable(page)}")
