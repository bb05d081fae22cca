"""`trilemma pareto`: what leakage, utility and efficiency can be had together."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

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
    from trilemma.tuning.pareto import Front

__all__ = ["pareto"]

_RELEVANT: Final = {
    "scenario", "data", "clients", "batch", "alpha", "device", "confidence", "bandwidth",
    "mechanisms", "attacks", "adversary", "success", "restarts", "rounds", "seeds", "seed",
}  # fmt: skip
_STUDY: Final = "study.sqlite"


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part)


def pareto(
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
    mechanisms: Annotated[
        str | None,
        typer.Option(help="Names, joined by commas; an unknown one lists them [deployable]."),
    ] = None,
    attacks: Annotated[
        str | None, typer.Option(help="Attacks that bind, joined by commas [dlg and such].")
    ] = None,
    adversary: Annotated[
        Literal["server", "client"] | None, typer.Option(help="Who is curious [server].")
    ] = None,
    evaluations: Annotated[
        int, typer.Option(help="Points to measure in all; a larger number goes on later.")
    ] = 32,
    units: Annotated[int, typer.Option(help="Updates to attack at each point.")] = 48,
    sampler: Annotated[
        Literal["grid", "motpe", "nsga2"], typer.Option(help="What picks the next point.")
    ] = "grid",
    storage: Annotated[
        str | None,
        typer.Option(help="Database URL of a study that machines share [a file in the folder]."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Of each point's intervals [0.95].")
    ] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Bits a second [1e8].")] = None,
    success: SuccessOption = None,
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
    """Measure the front of leakage, utility and efficiency, where no weights are known.

    Example: trilemma pareto --scenario digits --evaluations 32 --workers 2 --out runs/front
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
            "confidence": confidence,
            "bandwidth": bandwidth,
            "mechanisms": _names(mechanisms),
            "attacks": _names(attacks),
            "adversary": adversary,
            "success": success,
            "restarts": restarts,
            "rounds": rounds,
            "seeds": seeds,
            "seed": seed,
        },
    )
    # What decides a point: not how many there are, nor where the study is, nor the workers.
    described = {
        "command": "pareto",
        **chosen.model_dump(mode="json", include=_RELEVANT),
        "units": units,
        "sampler": sampler,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:8]
    name = f"pareto-{chosen.scenario.replace(':', '-').replace('/', '-')}-{digest}"
    folder = out or Path("runs") / name
    with resumable(folder, described, fresh=fresh) as run:
        if fresh:
            (folder / _STUDY).unlink(missing_ok=True)
        front = _measured(
            chosen,
            run,
            evaluations=evaluations,
            units=units,
            sampler=sampler,
            storage=storage or f"sqlite:///{folder.resolve() / _STUDY}",
            study=f"trilemma-{digest}",
            shared=storage is not None,
            workers=workers,
            report=lambda found: found.save(folder / "pareto.json"),
        )
        front.save(folder / "pareto.json")
    if as_json:
        print(json.dumps(front.as_json(), allow_nan=False, indent=2))
    else:
        from trilemma.reporting.front import show_front

        show_front(front)
        print(f"\nfront: {folder / 'pareto.json'}")


def _measured(chosen: Settings, run: Any, **how: Any) -> Front:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.observations import Adversary
    from trilemma.progress import Ticker
    from trilemma.scenarios import load_scenario
    from trilemma.tuning.pareto import measure_front
    from trilemma.tuning.tune import Effort

    with Ticker("pareto") as ticker:
        return measure_front(
            partial(load_scenario, chosen.scenario, **chosen.scenario_options()),
            mechanisms=chosen.mechanisms,
            attacks=chosen.attacks,
            adversary=Adversary(chosen.adversary),
            confidence=chosen.confidence,
            bandwidth=chosen.bandwidth,
            criterion=Criterion.parse(chosen.success) if chosen.success else None,
            effort=Effort(restarts=chosen.restarts, rounds=chosen.rounds, seeds=chosen.seeds),
            seed=chosen.seed,
            run=run,
            data_key=run.key("data"),
            ticker=ticker,
            **how,
        )
