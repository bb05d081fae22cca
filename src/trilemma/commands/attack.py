"""`trilemma attack`: one attack, what it recovers with and without a protection, and a picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trilemma.commands.measuring import AttackOption, SuccessOption, prepare
from trilemma.commands.settings import Federated, Running, from_flags, with_flags

__all__ = ["attack"]


@with_flags(Federated)
def attack(
    verdict: Annotated[
        Path | None,
        typer.Argument(help="A verdict.json or its run folder: what it chose is attacked again."),
    ] = None,
    attack: AttackOption = "dlg",
    protection: Annotated[
        str, typer.Option(help='"none", or e.g. "randomization:variance=1e-3".')
    ] = "none",
    public: Annotated[
        str | None,
        typer.Option(help="With a verdict: other public records, as module:object."),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(help="Updates to attack [20], or games against a verdict [48]."),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="An attack keeps the best of so many starts [3].")
    ] = None,
    success: SuccessOption = None,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same numbers [0; against a verdict: new].")
    ] = None,
    **flags: Any,
) -> None:
    """Attack updates as a curious server would, or what a verdict chose, with fresh games.

    Examples: trilemma attack runs/demo --units 100; trilemma attack --batch 1 --protection
    randomization:variance=1e-3 --out runs/noise
    """
    federated, running = from_flags(flags, Federated, Running)
    if verdict is not None:
        from trilemma.commands.doubting import attack_verdict

        attack_verdict(
            verdict,
            running,
            scenario=flags["scenario"],
            public=public,
            units=48 if units is None else units,
            restarts=restarts,
            seed=seed,
        )
        return
    from trilemma.errors import printable
    from trilemma.estimation.recovering.constants import constants_of
    from trilemma.estimation.recovering.recoveries import measure
    from trilemma.protections.specs import parse_protection
    from trilemma.reporting.figures.recoveries import draw_recoveries
    from trilemma.reporting.words.recoveries import show_recoveries

    prepared = prepare(
        "attack",
        federated,
        attack=attack,
        success=success,
        units=20 if units is None else units,
        out=running.out,
        restarts=3 if restarts is None else restarts,
        seed=seed or 0,
        protection=parse_protection(protection),
    )
    with prepared.run(fresh=running.fresh) as run:
        protected, control = measure(
            prepared.source,
            prepared.measurement,
            prepared.guess.criterion,
            run=run,
            workers=running.workers,
            show_progress=True,
        )
        rows = [("none (control)", control)]
        if protected is not None:
            rows.append((protection, protected))
        document: dict[str, Any] = {"scenario": prepared.scenario.name, "protection": protection}
        for key, outcomes in zip(("control", "protected"), (control, protected), strict=True):
            if outcomes is not None:
                found = constants_of(outcomes, prepared.guess).as_json()
                document[key] = {
                    "success": found["success"],
                    "success_any": found["success_any"],
                    "success_all": found["success_all"],
                    "leakage": found["c1"],
                    "leakage_max": found["c1_max"],
                    "failed": int(outcomes.failed[:, 0].sum()),
                }
        works = not constants_of(control, prepared.guess).attack_failed
        document |= {"attack_failed": not works, "units": len(control.client)}
        prepared.write("attack.json", document)
        picture = prepared.folder / "recoveries.png"
        if prepared.scenario.show_records:
            unit = "dB" if prepared.guess.criterion.metric == "psnr" else ""
            draw_recoveries(
                picture,
                prepared.originals(len(control.pictures)),
                rows,
                prepared.scenario.input_spec,
                unit,
            )
    if running.as_json:
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        show_recoveries(prepared.headline(), rows, prepared.guess, 0.95)
        print(_verdict(works, prepared.scenario.show_records, printable(picture)))
    print(f"trilemma: run folder {printable(prepared.folder)}", file=sys.stderr)


def _verdict(works: bool, shown: bool, picture: str) -> str:
    sentences = []
    if not works:
        sentences.append(
            "The attack failed here: it does not recover unprotected records either, so nothing "
            "above speaks for the protection; try another attack, more restarts, a smaller batch."
        )
    sentences.append(
        f"Originals beside recoveries: {picture}"
        if shown
        else "No picture: the scenario does not set show_records."
    )
    return "\n".join(sentences)
