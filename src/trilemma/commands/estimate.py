"""`trilemma estimate`: what unprotected updates leak, C₁, ξ, C₂ and κ with intervals."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from trilemma.commands.measuring import (
    AttackOption,
    Prepared,
    SuccessOption,
    prepare,
    resumable,
    show_or_dump,
)
from trilemma.commands.settings import SettingsArgument, read_settings, with_flags
from trilemma.settings import Effort, Federated

__all__ = ["estimate"]

_MOST: Final = 512  # unknowns of one update up to which the prediction takes seconds
_PROBED: Final = 4


@with_flags(Federated, Effort)
def estimate(
    settings: SettingsArgument = None,
    attack: AttackOption = "dlg",
    units: Annotated[
        int, typer.Option(help="Updates to attack, shared evenly by the clients.")
    ] = 100,
    models: Annotated[
        int | None, typer.Option(help="M, models shared by the updates; default one for each.")
    ] = None,
    success: SuccessOption = None,
    literal: Annotated[
        bool, typer.Option("--literal", help="Also the paper's own reading, for comparison.")
    ] = False,
    **flags: Any,
) -> None:
    """Attack unprotected updates and estimate the paper's constants.

    Example: trilemma estimate --scenario digits --clients 4 --units 200 --workers 2
    """
    from trilemma.estimation.recovering.constants import constants_of, literal_constants
    from trilemma.reporting.words.recoveries import show_constants
    from trilemma.work.files import write_json

    federated, effort, running = read_settings(settings, flags, Federated, Effort)
    prepared = prepare(
        "estimate", federated, attack=attack, success=success, units=units, out=running.out,
        models=models, **effort.model_dump(),
    )  # fmt: skip
    with resumable(prepared.folder, prepared.settings, fresh=running.fresh) as run:
        _, control = prepared.measured(run, running)
        found = constants_of(control, prepared.guess, models=models)
        document = found.as_json()
        reading = None
        if literal:
            # Each restart is an attempt of its own: the paper's T.
            tries = {"literal": True, "attempts": effort.restarts, "restarts": 1}
            _, as_printed = prepared.measured(run, running, **tries)
            reading = literal_constants(as_printed)
            document["literal"] = asdict(reading)
        half = document["predicted_half_point"] = _half_point(prepared)
        write_json(prepared.folder / "estimate.json", document)

    def show() -> None:
        show_constants(prepared.headline(), found, reading)
        if half is not None:
            print(
                f"Predicted: noise of variance {half:.3g} hides half of the records from an "
                f"attacker\nwithout a prior (Fisher information; no claim rests on it)."
            )

    show_or_dump(document, running, show, f"run folder {prepared.folder}")


def _half_point(prepared: Prepared) -> float | None:
    """The variance at which Fisher's information predicts that half are recovered.

    None where it does not apply (no PSNR, more unknowns than equations) or would take minutes.
    """
    from trilemma.estimation.recovering.fisher import predict
    from trilemma.estimation.recovering.units import Measurement, unit_views

    scenario, criterion = prepared.scenario, prepared.guess.criterion
    each = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
    unknowns = each * scenario.local_training.unit_size
    if criterion.metric != "psnr" or unknowns > min(_MOST, scenario.task.layout.size):
        return None
    views = unit_views(scenario, Measurement(seed=prepared.measurement.seed), range(_PROBED))
    found = predict(*views).half_point(criterion.threshold)
    return found if math.isfinite(found) and found > 0 else None
