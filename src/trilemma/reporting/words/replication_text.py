"""A verdict attacked once more, for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trilemma.game.playing.claims import checkpoints
from trilemma.reporting.words.knowledge_text import RUNGS
from trilemma.reporting.words.numbers import hundred
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.tuning.replication import Attacked
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["show_again", "summary"]

_ODD: Final = 0.05  # shared by the attacks of the claim


def summary(verdict: Verdict, found: Sequence[Attacked]) -> str:
    """Whether the fresh games contradict the claim, at a level shared by its attacks."""
    claimed = [each for each in found if each.claimed]
    broken = [each for each in claimed if each.p_value < _ODD / max(1, len(claimed))]
    if broken:
        names = ", ".join(each.attack for each in broken)
        return (
            f"The claim is contradicted: {names} picked right in significantly more than "
            f"{hundred(verdict.largest_success_rate)} games; do not deploy it, and tune again."
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
            f"({names}) pick right in more than {hundred(verdict.largest_success_rate)} games."
        )
    return "No attack contradicts the claim, nor do those that know more than it claims."


def show_again(verdict: Verdict, found: Sequence[Attacked]) -> None:
    """Print the headline, one line an attack, and what follows."""
    out = Printer()
    out.text(verdict.headline, bold=True)
    out.title("Attacked again, by fresh games")
    rows = [
        (
            RUNGS[each.rung],
            each.attack,
            f"{each.recovered} of {each.units}",
            f"{each.success.value:.2f} [{each.success.low:.2f}, {each.success.high:.2f}]",
            "covers it" if each.claimed else "does not",
        )
        for each in found
    ]
    out.table(("knows", "attack", "right picks", "rate", "the claim"), rows)
    if steps := checkpoints(verdict.claim.rounds):
        out.title("Rate after so many rounds")
        rates = [
            (each.attack, *(f"{won / each.units:.2f}" for won in each.after)) for each in found
        ]
        out.table(("attack", *map(str, steps)), rates, gap=2)
    out.note(summary(verdict, found))
