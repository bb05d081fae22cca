"""A verdict attacked once more, for people, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trilemma.game.playing.claims import checkpoints
from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
from trilemma.reporting.words.numbers import hundred
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from trilemma.tuning.replication import Attacked, Known, Replication
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["show_again", "summary"]

_ODD: Final = 0.05  # shared by the attacks of the claim


def summary(verdict: Verdict, found: Sequence[Attacked]) -> str:
    """Whether the fresh games contradict the claim, at a level shared by its attacks."""
    claimed = [item for item in found if item.claimed]
    broken = [item for item in claimed if item.p_value < _ODD / max(1, len(claimed))]
    if broken:
        names = ", ".join(item.attack for item in broken)
        return (
            f"The claim is contradicted: {names} guessed right in significantly more than "
            f"{hundred(verdict.largest_success_rate)} games; do not deploy it, and tune again."
        )
    beyond = [
        item
        for item in found
        if not item.claimed and item.success.value > verdict.largest_success_rate
    ]
    if beyond:
        names = ", ".join(item.attack for item in beyond)
        return (
            f"No attack of the claim contradicts it. Attackers that know more than it claims "
            f"({names}) guess right in more than {hundred(verdict.largest_success_rate)} games."
        )
    return "No attack contradicts the claim, nor do those that know more than it claims."


def show_again(again: Replication) -> None:
    """Print the headline, one line an attack, what each kind of knowledge wins, what follows."""
    verdict, found = again.verdict, again.attacks
    out = Printer()
    out.text(verdict.headline, bold=True)
    out.title("Attacked again, by fresh games")
    rows = [
        (
            WHAT_IS_KNOWN[item.knows],
            item.attack,
            f"{item.recovered} of {item.units}",
            f"{item.success.value:.2f} [{item.success.low:.2f}, {item.success.high:.2f}]",
        )
        for item in found
    ]
    out.table(("knows", "attack", "right guesses", "rate"), rows)
    allowed = verdict.largest_success_rate
    out.title(f"At most {hundred(allowed)} guesses right? What these games alone show")
    out.table(
        ("attacker knows", "answer", "rate, all limits at once", "claimed"),
        [
            (
                WHAT_IS_KNOWN[item.knows],
                item.answer(allowed),
                _limits(item),
                "yes" if item.claimed else "no",
            )
            for item in again.by_knowledge
        ],
        gap=2,
    )
    if steps := checkpoints(verdict.claim.rounds):
        out.title("Rate after so many rounds")
        rates = [
            (item.attack, *(f"{won / item.units:.2f}" for won in item.after)) for item in found
        ]
        out.table(("attack", *map(str, steps)), rates, gap=2)
    out.note(summary(verdict, found))


def _limits(known: Known) -> str:
    """The limits; crossed, they contradict one another."""
    if known.crossed:
        return f"contradictory: at least {known.low:.2f}, at most {known.high:.2f}"
    return f"{known.low:.2f} to {known.high:.2f}"
