"""`trilemma tune`: from a budget to a mechanism and a parameter, with the evidence."""

# Flags reach the settings by their names, through the context.
# ruff: noqa: ARG001

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

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

if TYPE_CHECKING:
    from trilemma.commands.settings import Settings
    from trilemma.tuning.results.verdict import Verdict
    from trilemma.work.journal import Run

__all__ = ["tune"]


def tune(
    context: typer.Context,
    settings: SettingsArgument = None,
    scenario: OwnScenarioOption = None,
    data: DataOption = None,
    clients: ClientsOption = None,
    batch: BatchOption = None,
    alpha: AlphaOption = None,
    budget: Annotated[
        float | None, typer.Option(help="Largest tolerated leakage, between 0 and 1 [0.3].")
    ] = None,
    mechanisms: Annotated[
        str | None, typer.Option(help="Names, joined by commas; an unknown one lists them [all].")
    ] = None,
    attacks: AttacksOption = None,
    adversary: AdversaryOption = None,
    confidence: ConfidenceOption = None,
    utility_weight: Annotated[
        str | None, typer.Option(help="η_u, or one a client joined by commas [1].")
    ] = None,
    efficiency_weight: Annotated[
        str | None, typer.Option(help="η_e, or one a client joined by commas [0.01].")
    ] = None,
    bandwidth: BandwidthOption = None,
    max_utility_loss: Annotated[float | None, typer.Option(help="Cap on ε_u.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Cap on ε_e.")] = None,
    basis: Annotated[
        Literal["measured", "certified", "surrogate", "all"] | None,
        typer.Option(help="What the verdict rests on [measured]."),
    ] = None,
    success: SuccessOption = None,
    kappa: Annotated[
        float | None, typer.Option(help="Stated blind-guess rate, for a certificate [measured].")
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(help='Norm of a certificate; "utility": what trains best [median norm].'),
    ] = None,
    certified_rounds: Annotated[
        int | None, typer.Option(help="Rounds that a certificate covers [1].")
    ] = None,
    population: Annotated[
        int | None, typer.Option(help="Clients of which a round samples K, for its (ε, δ).")
    ] = None,
    restarts: StartsOption = None,
    rounds: RoundsOption = None,
    seeds: SeedsOption = None,
    strengths: Annotated[
        int | None, typer.Option(help="Points of each mechanism's curve, 0 for none [6].")
    ] = None,
    seed: ZeroSeedOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the protection that keeps the budget at the least cost.

    Example: trilemma tune --scenario digits --budget 0.3 --workers 2 --out runs/first
    """
    from trilemma.commands.settings import Settings, command_line, read_settings

    chosen = read_settings(settings, context.params)
    # Curves decide no number of the others: a run may go on to have them, or more of them.
    values = chosen.model_dump(mode="json", exclude={"strengths"})
    described: dict[str, Any] = {"command": "tune", **values}
    folder = out or run_folder("tune", chosen.scenario, described)
    with resumable(folder, described, fresh=fresh) as run:
        if fresh:
            for name in ("verdict.json", "gallery.json", "report.html"):
                (folder / name).unlink(missing_ok=True)
        again = command_line("tune", dict(chosen), dict(Settings()))
        verdict = replace(_tuned(chosen, run, workers), reproduce=again)
        verdict.save(folder / "verdict.json")
        from trilemma.reporting.page import write_report

        page = write_report(folder)
    if as_json:
        print(json.dumps(verdict.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.verdict import show_verdict

        show_verdict(verdict)
        print(f"\nverdict: {folder / 'verdict.json'}\nreport: {page}")
    if verdict.protection is None:
        raise typer.Exit(1)


def _tuned(chosen: Settings, run: Run, workers: int) -> Verdict:
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.tune import tune as find
    from trilemma.work.progress import Ticker

    problem = Problem(
        chosen.budget,
        chosen.utility_weight,
        chosen.efficiency_weight,
        chosen.max_utility_loss,
        chosen.max_cost,
    )
    with Ticker("tune") as ticker:
        return find(
            problem=problem,
            protections=chosen.mechanisms,
            basis=chosen.basis,
            workers=workers,
            ticker=ticker,
            **measurement(chosen, run),
        )
