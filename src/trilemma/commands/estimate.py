"""`trilemma estimate`: the paper's Algorithms 2 to 4, from unprotected updates to C₁, ξ and C₂."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
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

__all__ = ["AttemptsOption", "ModelsOption", "estimate"]

_MOST: Final = 512  # unknowns of one update up to which the prediction takes seconds
_PROBED: Final = 4
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
    from trilemma.paper.algorithm import estimated
    from trilemma.paper.files import ProfileFile
    from trilemma.paper.profiling import client_profiles
    from trilemma.reporting.words.paper import show_estimate
    from trilemma.work.files import write_json

    federated, effort, running = read_settings(settings, flags, Federated, Effort)
    prepared = prepare(
        "estimate", federated, attack=attack, success=success, units_for=lambda _: models,
        out=running.out, models=models, attempts=attempts, batches="fixed", restarts=1,
        seed=effort.seed,
    )  # fmt: skip
    scenario, guess = prepared.scenario, prepared.guess
    with resumable(prepared.folder, prepared.settings, fresh=running.fresh) as run:
        _, control = prepared.measured(run, running)
        found = estimated(scenario, guess, control)
        document: dict[str, Any] = asdict(found)
        reading = None
        if literal:
            _, as_printed = prepared.measured(run, running, literal=True)
            reading = estimated(scenario, guess, as_printed)
            document["literal"] = asdict(reading)
        half = document["predicted_half_point"] = _half_point(prepared)
        write_json(prepared.folder / "estimate.json", document)
        if profile is not None:
            profiles = client_profiles(scenario, seed=effort.seed)
            ProfileFile(found.by_datum.constants, profiles).save(profile)

    def show() -> None:
        show_estimate(prepared.headline(), found, reading)
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
    record = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
    unknowns = record * scenario.local_training.unit_size
    if criterion.metric != "psnr" or unknowns > min(_MOST, scenario.task.layout.size):
        return None
    views = unit_views(scenario, Measurement(seed=prepared.measurement.seed), range(_PROBED))
    found = predict(*views).half_point(criterion.threshold)
    return found if math.isfinite(found) and found > 0 else None
