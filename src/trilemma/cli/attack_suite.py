"""`trilemma attack` without a name: every attack, and how often it guesses right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from trilemma.tuning.attack_rates import Ratings

__all__ = ["show_ratings"]

_COLUMNS: Final = 5  # of a table's row that is shown: as many as fit into a line


def show_ratings(found: Ratings, picture: Path) -> None:
    """Print how often each attack is right, with what fails, and where the picture is."""
    from trilemma.errors import printable
    from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
    from trilemma.reporting.words.numbers import count, hundred, number
    from trilemma.reporting.words.protection_text import phrase
    from trilemma.reporting.words.terminal import Printer

    scenario, protection, knows = found.scenario, found.protection, found.knows
    out, size = Printer(), scenario.local_training.unit_size
    sends = "malicious server" if any(item.crafted for item in found.rated) else "server"
    out.text(
        f"{printable(scenario.name)}: one update of {count(size, 'record')} is read by a {sends} "
        f"that knows {WHAT_IS_KNOWN[knows]}; which of {found.claim.candidates} records is in "
        "it? A blind "
        f"guess is right in {hundred(found.claim.kappa)} cases."
    )
    shielded = protection != "none"
    columns = ["attack", "knows", "right guesses", "per 100"]
    rows = []
    for item in found.rated:
        low, high = number(100 * item.success.low), number(100 * item.success.high)
        name = item.attack if item.crafted is None else f"{item.attack}, {item.crafted}"
        row = [
            name,
            WHAT_IS_KNOWN[item.knows],
            f"{item.won} of {item.units}",
            f"{low} to {high}",
        ]
        rows.append([*row, f"{item.protected} of {item.units}"] if shielded else row)
    out.text("")
    out.table([*columns, *(["protected"] * shielded)], rows, gap=2)
    if shielded:
        out.note(f"Protected: {phrase(protection)}. `trilemma tune` finds what is enough.")
    out.text("")
    for sentence in found.failed():
        out.text(sentence)
    _show_rows(out, found)
    if found.images:
        out.text(f"Originals beside what each attack makes of them: {printable(picture)}")
    elif found.pictures is None:
        out.text("No records are shown: the scenario does not set show_records.")


def _show_rows(out: Any, found: Ratings) -> None:
    """A row of a table beside what each attack makes of it."""
    scenario = found.scenario
    if found.pictures is None or len(scenario.input_spec.shape) != 1:
        return
    spec, pictures = scenario.input_spec, found.pictures
    lines = {"original": next(iter(pictures.values()))["none"].target[0]}
    lines |= {name: picture["none"].attacks[name].made[0] for name, picture in pictures.items()}

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
