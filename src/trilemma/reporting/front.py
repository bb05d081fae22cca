"""A front for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilemma.errors import printable
from trilemma.reporting.wording import change, count, slower

if TYPE_CHECKING:
    from trilemma.tuning.fronts.pareto import Front
    from trilemma.tuning.fronts.points import Evaluated

__all__ = ["show_front"]

_WIDTH: Final = 80


def show_front(front: Front) -> None:
    """What is not covered, then the front from the least leakage up, its knee and its volume."""
    console = Console(highlight=False, soft_wrap=False, file=sys.stdout)
    console.width = min(console.width, _WIDTH)
    there = front.federation
    who = "the server" if front.adversary.value == "server" else "a curious client"
    console.print(
        Text(
            f"{printable(there.scenario)}: {count(there.clients, 'client')}, "
            f"{count(there.records_per_update, 'record')} an update; {who} attacks with "
            f"{', '.join(front.attacks)}; {front.evaluations} of {front.wanted} evaluations "
            f"({front.sampler}), seed {front.seed}"
        )
    )
    console.print(Text("\nNot covered", style="bold"))
    for sentence in front.limits:
        bullet = Table.grid()
        bullet.add_row("  - ", Text(sentence))
        console.print(bullet)
    title = f"\nFront: {len(front.front)} of {len(front.points)} points"
    console.print(Text(title, style="bold"))
    console.print(_table(front))
    console.print(Text("\nReading", style="bold"))
    for line in _reading(front):
        console.print(Padding(Text(line), (0, 2)))


def _table(front: Front) -> Table:
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for column in ("", "mechanism", "value", "leakage", "utility", "cost"):
        table.add_column(column, no_wrap=True)
    best = [(front.points[place], place) for place in front.front]
    for each, place in sorted(best, key=lambda pair: pair[0].objectives or ()):
        table.add_row("*" if place == front.knee else "", *_cells(each))
    return table


def _cells(each: Evaluated) -> tuple[str, ...]:
    leak = "key"
    if each.leakage is not None:
        leak = f"{each.leakage.value:.2f} [{each.leakage.low:.2f}, {each.leakage.high:.2f}]"
    loss, reduction = each.utility_loss, each.efficiency_reduction
    return (
        each.mechanism,
        "-" if each.parameter is None else f"{each.parameter:.3g}",
        leak,
        "-" if loss is None else change(-loss.value),
        "-" if reduction is None else slower(reduction.value),
    )


def _reading(front: Front) -> list[str]:
    corner = ", ".join(f"{value:g}" for value in front.reference)
    best = front.points[front.knee].protection
    lines = [
        (
            f"leakage: pointwise {100 * front.confidence:g} % interval; utility: change of the "
            f"metric; cost: longer (+) or shorter (-) rounds, +1 = twice as long"
        ),
        f"* knee, nearest to the best of each objective (scaled to the front's range): {best}",
        (
            f"hypervolume {front.hypervolume:.4f} below ({corner}) in (leakage, utility loss, "
            f"r / (1 + r)), r = 1 + cost"
        ),
    ]
    if any(front.points[place].basis == "cryptographic" for place in front.front):
        lines.append("key: the server reads nothing; no measurement, it rests on the key")
    failed = [each for each in front.points if each.objectives is None]
    if failed:
        what = count(len(failed), "point")
        lines.append(f"{what} cannot be run or trained; pareto.json says why")
    return lines
