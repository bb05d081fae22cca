"""What attackers reach of what was proved, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.reporting.words.numbers import at_most, count, number, percent

if TYPE_CHECKING:
    from trilemma.tuning.request import Knows
    from trilemma.tuning.results.success_by_noise import TradeOff

__all__ = ["ATTACKERS", "attacked_text"]

ATTACKERS: Final[dict[Knows, str]] = {
    "anyone": "proved: anyone",
    "rest": "all other records",
    "candidates": "the candidates",
    "public": "public records",
    "nothing": "nothing",
}


def attacked_text(found: TradeOff) -> str:
    """How often attackers guess right at the chosen noise, who knows most first, by limits."""
    point = found.points[found.chosen]
    played = [attacker for attacker in reversed(point.attackers) if attacker.units]
    if not played:
        return (
            f"no games were played; of {found.candidates} candidates the right one is guessed in "
            f"at most {at_most(point.proof)} attempts."
        )
    said = "; ".join(
        f"who knows {ATTACKERS[item.knows]}, at about {percent(item.rate)}, at most "
        f"{percent(item.upper)} ({count(item.units, 'game')})"
        for item in played
    )
    return (
        f"the right one of {found.candidates} candidates is guessed by {said}; who knows less "
        f"reaches no more, and the proof allows {percent(point.proof)}. All limits hold at once, "
        f"at confidence {number(found.confidence)}."
    )
