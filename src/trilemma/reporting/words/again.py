"""A verdict attacked once more, for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from trilemma.tuning.again import Attacked
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["show_again", "summary"]

_ODD = 0.05


def summary(verdict: Verdict, found: Sequence[Attacked]) -> str:
    """Whether the fresh games contradict the claim, at a level shared by its attacks."""
    claimed = [each for each in found if each.claimed]
    broken = [each for each in claimed if each.p_value < _ODD / max(1, len(claimed))]
    if broken:
        names = ", ".join(each.attack for each in broken)
        return (
            f"The claim is contradicted: {names} picked the right record significantly more "
            f"often than {verdict.largest_success_rate:.3g}; do not deploy it, and tune again."
        )
    beyond = [
        each
        for each in found
        if not each.claimed and each.success.value > verdict.largest_success_rate
    ]
    if beyond:
        names = ", ".join(each.attack for each in beyond)
        return (
            f"No attack of the claim contradicts it. Attackers that know more than it claims "
            f"({names}) pick right more often than {verdict.largest_success_rate:.3g}."
        )
    return "No attack contradicts the claim, nor do those that know more than it claims."


def show_again(verdict: Verdict, found: Sequence[Attacked]) -> None:
    """Print the headline, one line an attack, and what follows."""
    console = Console(width=80, highlight=False)
    console.print(verdict.headline)
    table = Table(box=None, pad_edge=False)
    for name in ("knows", "attack", "right picks", "rate", "the claim"):
        table.add_column(name, justify="right" if name in ("right picks", "rate") else "left")
    for each in found:
        rate = each.success
        table.add_row(
            each.rung,
            each.attack,
            f"{each.recovered} of {each.units}",
            f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}]",
            "covers it" if each.claimed else "does not",
        )
    console.print(table)
    console.print(summary(verdict, found))
