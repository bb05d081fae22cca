"""`trilemma attack`: all attacks, or what one recovers, with and without protection."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from pydantic import BeforeValidator, Field

from trilemma import api
from trilemma.cli.common_options import (
    SuccessOption,
    interruptible,
    show_or_dump,
)
from trilemma.cli.configuration import (
    Running,
    TrustOption,
    from_flags,
    read_settings,
    with_flags,
)
from trilemma.errors import InvalidInput, printable
from trilemma.naming import only_named
from trilemma.settings import Effort, Federated, run_folder
from trilemma.tuning.request import Settings, knowledge_of

__all__ = ["attack"]

_FEW: Final = 8  # games in which other attacks are tried where the one asked for fails


def _attacking(value: Any) -> Any:
    """A proof holds against anyone; of those whose attacks can be made, who knows most is next."""
    return "rest" if value == "anyone" else knowledge_of(value)


class Attacker(Settings):
    """Who attacks, where no attack is named."""

    knows: Annotated[
        Literal["nothing", "public", "candidates", "rest"], BeforeValidator(_attacking)
    ] = Field("candidates", description="Whose attacks, where none is named.")
    server: Literal["curious", "malicious"] = Field(
        "curious", description="malicious: it crafts the model, where no attack is named."
    )


@with_flags(Federated, Attacker, Effort)
def attack(
    verdict: Annotated[
        Path | None,
        typer.Argument(help="A verdict.json or its run folder: what it chose is attacked again."),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            help="One attack, to see what it recovers [all of that knowledge, by their guesses]."
        ),
    ] = None,
    protection: Annotated[
        str, typer.Option(help='"none", or e.g. "randomization:variance=1e-3".')
    ] = "none",
    public: Annotated[
        str | None,
        typer.Option(help="With a verdict: other public records, as module:object."),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(help="Updates to attack [20], or games of each attack [32; a verdict: 48]."),
    ] = None,
    success: SuccessOption = None,
    trust: TrustOption = False,
    **flags: Any,
) -> None:
    """Attack updates as a curious server would, or what a verdict chose, with fresh games.

    A verdict brings its own federation and effort, and other games unless --seed is given; all
    else comes from flags or from trilemma.toml, if it exists.

    Examples: trilemma attack runs/demo --units 100; trilemma attack --protection
    randomization:variance=1e-3; trilemma attack --attack dlg --batch 1 --out runs/dlg
    """
    if verdict is not None:
        with only_named(flags["scenario"], public, trust=trust):
            _attack_verdict(verdict, public, 48 if units is None else units, flags)
        return
    federated, attacker, effort, running = read_settings(None, flags, Federated, Attacker, Effort)
    if attack is None:
        if success is not None:
            raise InvalidInput(
                f"success {success!r} judges what one attack recovers; name it with --attack, or "
                f"leave it out to compare all by their guesses."
            )
        asked = {
            "knows": attacker.knows,
            "protection": protection,
            "units": 32 if units is None else units,
            **({} if attacker.server == "curious" else {"server": attacker.server}),
            **effort.model_dump(),
        }
        folder = running.out or run_folder("attack", federated, asked)
        with interruptible(folder):
            ratings = api.attack(
                federated.scenario, **asked, out=folder, **running.work, **federated.given()
            )
        from trilemma.cli.attack_suite import show_ratings

        printed = partial(show_ratings, ratings, folder / "recoveries.png")
        show_or_dump(ratings.as_json(), running, printed, f"run folder {folder}")
        return
    single: dict[str, Any] = {
        "attack": attack,
        "protection": protection,
        "units": 20 if units is None else units,
        "success": success,
        **effort.model_dump(),
    }
    folder = running.out or run_folder("attack", federated, single)
    with interruptible(folder):
        recovered = api.recover(
            federated.scenario, **single, out=folder, **running.work, **federated.given()
        )
        better = [] if recovered.works else _better(federated, attack, effort.seed, running)
    from trilemma.reporting.words.recovery_tables import show_recoveries

    def show() -> None:
        prepared = recovered.prepared
        show_recoveries(prepared.headline(), recovered.rows(), prepared.guess, 0.95)
        picture = folder / "recoveries.png" if prepared.scenario.show_records else None
        _show_verdict(recovered.works, better, picture)

    show_or_dump(recovered.as_json(), running, show, f"run folder {folder}")


def _attack_verdict(path: Path, public: str | None, units: int, flags: Mapping[str, Any]) -> None:
    from trilemma.execution.run_files import is_folder

    (running,) = from_flags(flags, Running)
    seed = secrets.randbelow(1 << 31) if flags["seed"] is None else flags["seed"]
    file = path / "verdict.json" if is_folder(path) else path
    folder = running.out or file.parent / f"attack-{seed}"
    with interruptible(folder):
        found = api.attack_verdict(
            file,
            flags["scenario"],
            public=public,
            units=units,
            restarts=flags["restarts"],
            seed=seed,
            out=folder,
            **running.work,
        )
    from trilemma.reporting.words.replication_text import show_again

    show = partial(show_again, found)
    show_or_dump(found.as_json(), running, show, f"seed {seed}, run folder {folder}")


def _better(federated: Federated, attack: str, seed: int, running: Running) -> list[str]:
    """Other attacks that guess right more often than a blind guess from unprotected updates."""
    print(f"attack: {attack} fails here; trying the others", file=sys.stderr, flush=True)
    found = api.attack(
        federated.scenario,
        units=_FEW,
        restarts=1,
        seed=seed,
        workers=running.workers,
        ray=running.ray,
        **federated.given(),
    )
    able = [item for item in found.rated if item.works(found.claim.kappa)]
    return [
        f"{item.attack} ({item.won} of {item.units} right guesses)"
        for item in able
        if item.attack != attack
    ]


def _show_verdict(works: bool, better: list[str], picture: Path | None) -> None:
    if not works:
        others = f"better here: {', '.join(better)}" if better else "no other attack does better"
        print(
            f"The attack failed here: it does not recover unprotected records either, so nothing "
            f"above speaks for the protection; {others}."
        )
    if picture is None:
        print("No picture: the scenario does not set show_records.")
    else:
        print(f"Originals beside recoveries: {printable(picture)}")
