"""`trilemma tune`: from a budget to a mechanism and a parameter, with the evidence."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
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
)

if TYPE_CHECKING:
    from trilemma.commands.settings import Settings
    from trilemma.tuning.verdict import Verdict

__all__ = ["tune"]


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part)


def tune(
    settings: Annotated[
        Path | None, typer.Argument(help="Settings; trilemma.toml is read where it is there.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="A ready-made scenario, or module:function [digits].")
    ] = None,
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
    attacks: Annotated[
        str | None, typer.Option(help="Attacks that bind, joined by commas [dlg and such].")
    ] = None,
    adversary: Annotated[
        Literal["server", "client"] | None, typer.Option(help="Who is curious [server].")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Of the claim that the budget is kept [0.95].")
    ] = None,
    utility_weight: Annotated[float | None, typer.Option(help="η_u [1].")] = None,
    efficiency_weight: Annotated[float | None, typer.Option(help="η_e [0.01].")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Bits a second [1e8].")] = None,
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
    restarts: Annotated[
        int | None, typer.Option(help="The attack keeps the best of so many starts [3].")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Of each training [150].")] = None,
    seeds: Annotated[int | None, typer.Option(help="Paired trainings [5].")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers [0].")] = None,
    device: DeviceOption = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the protection that keeps the budget at the least cost.

    Example: trilemma tune --scenario digits --budget 0.3 --workers 2 --out runs/first
    """
    from trilemma.commands.settings import read_settings

    chosen = read_settings(
        settings,
        {
            "scenario": scenario,
            "data": data,
            "clients": clients,
            "batch": batch,
            "alpha": alpha,
            "device": device,
            "budget": budget,
            "mechanisms": _names(mechanisms),
            "attacks": _names(attacks),
            "adversary": adversary,
            "confidence": confidence,
            "utility_weight": utility_weight,
            "efficiency_weight": efficiency_weight,
            "bandwidth": bandwidth,
            "max_utility_loss": max_utility_loss,
            "max_cost": max_cost,
            "basis": basis,
            "success": success,
            "kappa": kappa,
            "restarts": restarts,
            "rounds": rounds,
            "seeds": seeds,
            "seed": seed,
        },
    )
    folder = out or _folder(chosen)
    verdict = _tuned(chosen, folder, workers=workers, fresh=fresh)
    if as_json:
        print(json.dumps(verdict.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.verdict import show_verdict

        show_verdict(verdict)
        print(f"\nverdict: {folder / 'verdict.json'}")
    if verdict.protection is None:
        raise typer.Exit(1)


def _folder(chosen: Settings) -> Path:
    """Named after the settings: the same command resumes, another one starts its own run."""
    digest = hashlib.sha256(chosen.model_dump_json().encode()).hexdigest()[:8]
    return Path("runs") / f"tune-{chosen.scenario.replace(':', '-').replace('/', '-')}-{digest}"


def _tuned(chosen: Settings, folder: Path, *, workers: int, fresh: bool) -> Verdict:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.observations import Adversary
    from trilemma.progress import Ticker
    from trilemma.scenarios import load_scenario
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.tune import Effort
    from trilemma.tuning.tune import tune as find

    problem = Problem(
        chosen.budget,
        chosen.utility_weight,
        chosen.efficiency_weight,
        chosen.max_utility_loss,
        chosen.max_cost,
    )
    effort = Effort(
        restarts=chosen.restarts,
        rounds=chosen.rounds,
        seeds=chosen.seeds,
        certified_rounds=chosen.certified_rounds,
        kappa=chosen.kappa,
        clip=chosen.clip,
        population=chosen.population,
    )
    source = partial(load_scenario, chosen.scenario, **chosen.scenario_options())
    described: dict[str, Any] = {"command": "tune", **chosen.model_dump(mode="json")}
    with resumable(folder, described, fresh=fresh) as run:
        with Ticker("tune") as ticker:
            verdict = find(
                source,
                problem,
                protections=chosen.mechanisms,
                attacks=chosen.attacks,
                adversary=Adversary(chosen.adversary),
                basis=chosen.basis,
                confidence=chosen.confidence,
                bandwidth=chosen.bandwidth,
                criterion=Criterion.parse(chosen.success) if chosen.success else None,
                effort=effort,
                seed=chosen.seed,
                run=run,
                data_key=run.key("data"),
                workers=workers,
                ticker=ticker,
            )
        verdict.save(folder / "verdict.json")
    return verdict
