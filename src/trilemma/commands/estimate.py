"""`trilemma estimate`: what unprotected updates leak, C₁, ξ, C₂ and κ with intervals."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, replace
from typing import Annotated, Final

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
    Prepared,
    RestartsOption,
    ScenarioOption,
    SeedOption,
    SuccessOption,
    UnitsOption,
    WorkersOption,
    prepare,
)

__all__ = ["estimate"]

_MOST: Final = 512  # unknowns of one update up to which the prediction takes seconds
_PROBED: Final = 4


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
        half = document["predicted_half_point"] = _half_point(prepared)
        prepared.write("estimate.json", document)
    if as_json:
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        show_constants(prepared.headline(), found, reading)
        if half is not None:
            print(
                f"Predicted: noise of variance {half:.3g} hides half of the records from an "
                f"attacker\nwithout a prior (Fisher information; no claim rests on it)."
            )
    print(f"trilemma: run folder {printable(prepared.folder)}", file=sys.stderr)


def _half_point(prepared: Prepared) -> float | None:
    """The variance at which Fisher's information predicts that half are recovered.

    None where it does not apply (no PSNR, more unknowns than equations) or would take minutes.
    """
    from trilemma.estimation.fisher import predict
    from trilemma.estimation.units import Measurement, unit_views

    scenario, criterion = prepared.scenario, prepared.guess.criterion
    each = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
    unknowns = each * scenario.local_training.unit_size
    if criterion.metric != "psnr" or unknowns > min(_MOST, scenario.task.layout.size):
        return None
    views = unit_views(scenario, Measurement(seed=prepared.measurement.seed), range(_PROBED))
    found = predict(*views).half_point(criterion.threshold)
    return found if math.isfinite(found) and found > 0 else None
