"""`trilemma estimate`: what unprotected updates leak, C₁, ξ, C₂ and κ with intervals."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Annotated

import typer

from trilemma.commands.measuring import (
    AlphaOption,
    AttackOption,
    BatchOption,
    ClientsOption,
    DataOption,
    DeviceOption,
    FreshOption,
    JsonOption,
    OutOption,
    RestartsOption,
    ScenarioOption,
    SeedOption,
    SuccessOption,
    UnitsOption,
    WorkersOption,
    prepare,
)

__all__ = ["estimate"]


def estimate(
    scenario: ScenarioOption = "digits",
    data: DataOption = None,
    clients: ClientsOption = None,
    batch: BatchOption = None,
    alpha: AlphaOption = None,
    attack: AttackOption = "dlg",
    units: UnitsOption = 100,
    models: Annotated[
        int | None, typer.Option(help="M, models shared by the units; default one for each.")
    ] = None,
    restarts: RestartsOption = 3,
    success: SuccessOption = None,
    literal: Annotated[
        bool, typer.Option("--literal", help="Also the paper's own reading, for comparison.")
    ] = False,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    workers: WorkersOption = 1,
    out: OutOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Attack unprotected updates and estimate the paper's constants.

    Example: trilemma estimate --scenario digits --clients 4 --units 200 --workers 2
    """
    from trilemma.errors import printable
    from trilemma.estimation.constants import constants_of, literal_constants
    from trilemma.estimation.recoveries import measure
    from trilemma.reporting.words.recoveries import show_constants

    options = {
        "folder": data,
        "clients": clients,
        "batch": batch,
        "alpha": alpha,
        "device": device,
    }
    effort = {"restarts": restarts, "models": models, "seed": seed}
    prepared = prepare(
        "estimate",
        scenario,
        options,
        attack=attack,
        success=success,
        units=units,
        out=out,
        **effort,
    )
    criterion = prepared.guess.criterion
    with prepared.run(fresh=fresh) as run:
        _, control = measure(
            prepared.source,
            prepared.measurement,
            criterion,
            run=run,
            workers=workers,
            show_progress=True,
        )
        found = constants_of(control, prepared.guess, models=models)
        document = found.as_json()
        reading = None
        if literal:
            # Each restart is an attempt of its own: the paper's T.
            asked = replace(prepared.measurement, literal=True, attempts=restarts, restarts=1)
            _, as_printed = measure(
                prepared.source, asked, criterion, run=run, workers=workers, show_progress=True
            )
            reading = literal_constants(as_printed)
            document["literal"] = asdict(reading)
        prepared.write("estimate.json", document)
    if as_json:
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        show_constants(prepared.headline(), found, reading)
    print(f"trilemma: run folder {printable(prepared.folder)}", file=sys.stderr)
