"""`trilemma attack` without a name: every attack of a rung, and how often it picks right."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trilemma.commands.measuring import resumable, run_folder, show_or_dump

if TYPE_CHECKING:
    from pathlib import Path

    from trilemma.attacks import Rung
    from trilemma.commands.settings import Federated, Running
    from trilemma.door.rating import Ratings
    from trilemma.estimation.scenario import Scenario

__all__ = ["attack_suite"]

_COLUMNS: Final = 5  # of a table's row that is shown: as many as fit into a line


def attack_suite(
    federated: Federated,
    running: Running,
    *,
    knows: Rung,
    protection: str,
    units: int,
    restarts: int,
    seed: int,
) -> None:
    """Let every attack of a rung play the same games, and print how often each picks right."""
    from trilemma.work.progress import Ticker

    with Ticker("attack") as ticker:
        ticker.say(f"reading {federated.scenario}")
        from trilemma.door.rating import rate  # imports torch, which takes seconds
        from trilemma.protections.specs import parse_protection
        from trilemma.work.files import write_json

        shield = parse_protection(protection)
        settings = {
            "command": "attack",
            "knows": knows,
            "protection": shield.describe(),
            "units": units,
            "restarts": restarts,
            "seed": seed,
            **federated.model_dump(mode="json"),
        }
        source = federated.source()
        folder = running.out or run_folder("attack", federated.scenario, settings)
        with resumable(folder, settings, fresh=running.fresh) as run:
            scenario = source()
            found = rate(
                source,
                knows=knows,
                protection=shield,
                units=units,
                restarts=restarts,
                seed=seed,
                run=run,
                ticker=ticker,
                **running.crew,
            )
            document = _document(scenario, found, shield.describe(), knows)
            write_json(folder / "attack.json", document)
            picture = _drawn(scenario, found, folder / "recoveries.png")
    show = partial(_show, scenario, found, shield.describe(), knows, picture)
    show_or_dump(document, running, show, f"run folder {folder}")


def _document(scenario: Scenario, found: Ratings, protection: str, knows: Rung) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "protection": protection,
        "knows": knows,
        "candidates": found.claim.candidates,
        "attacks": [asdict(each) for each in found.rated],
        "failed": found.failed(),
    }


def _drawn(scenario: Scenario, found: Ratings, path: Path) -> Path | None:
    """The picture, where records are images and may be shown."""
    if found.pictures is None or len(scenario.input_spec.shape) < 2:
        return None
    from trilemma.reporting.figures.recoveries import draw_suite

    draw_suite(path, found.pictures, scenario.input_spec.shape)
    return path


def _show(
    scenario: Scenario, found: Ratings, protection: str, knows: Rung, picture: Path | None
) -> None:
    from trilemma.errors import printable
    from trilemma.reporting.words.knowledge import RUNGS
    from trilemma.reporting.words.numbers import count, hundred, number
    from trilemma.reporting.words.protections import phrase
    from trilemma.reporting.words.terminal import Printer

    out, size = Printer(), scenario.local_training.unit_size
    out.text(
        f"{printable(scenario.name)}: one update of {count(size, 'record')} is read by a server "
        f"that knows {RUNGS[knows]}; which of {found.claim.candidates} records is in it? A blind "
        f"guess is right in {hundred(found.claim.kappa)} cases."
    )
    shielded = protection != "none"
    columns = ["attack", "knows", "right picks", "per 100"]
    rows = []
    for each in found.rated:
        low, high = number(100 * each.success.low), number(100 * each.success.high)
        row = [each.attack, RUNGS[each.rung], f"{each.won} of {each.units}", f"{low} to {high}"]
        rows.append([*row, f"{each.protected} of {each.units}"] if shielded else row)
    out.text("")
    out.table([*columns, *(["protected"] * shielded)], rows, gap=2)
    if shielded:
        out.note(f"Protected: {phrase(protection)}. `trilemma tune` finds what is enough.")
    out.text("")
    for sentence in found.failed():
        out.text(sentence)
    _show_rows(out, scenario, found)
    if picture is not None:
        out.text(f"Originals beside what each attack makes of them: {printable(picture)}")
    elif found.pictures is None:
        out.text("No records are shown: the scenario does not set show_records.")


def _show_rows(out: Any, scenario: Scenario, found: Ratings) -> None:
    """A row of a table beside what each attack makes of it."""
    if found.pictures is None or len(scenario.input_spec.shape) != 1:
        return
    spec, pictures = scenario.input_spec, found.pictures
    lines = {"original": next(iter(pictures.values()))["none"].tagged[0]}
    lines |= {name: each["none"].attacks[name].made[0] for name, each in pictures.items()}

    def cell(held: Any) -> str:
        """A level of 0 .. 255 in the range of the data; or a text, marked where it is right."""
        if isinstance(held, int):
            return f"{spec.low + held / 255 * (spec.high - spec.low):.2f}"
        text, right = held
        return f"{text} ✓" if right else str(text)

    names = scenario.heads or tuple(str(place) for place in range(spec.size))
    shown = [(name, *(cell(held) for held in levels[:_COLUMNS])) for name, levels in lines.items()]
    out.table(("column", *names[:_COLUMNS]), shown)
    if len(names) > _COLUMNS:
        out.note(f"The first {_COLUMNS} of {len(names)} columns.")
