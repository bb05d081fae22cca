"""What attackers reach of what was proved, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilemma.reporting.words.numbers import at_most

if TYPE_CHECKING:
    from trilemma.tuning.request import Knows
    from trilemma.tuning.results.success_by_noise import TradeOff

__all__ = ["ATTACKERS", "attacked"]

ATTACKERS: Final[dict[Knows, str]] = {
    "anyone": "proved: anyone",
    "rest": "all other records",
    "candidates": "the candidates",
    "public": "public records",
    "nothing": "nothing",
}


def attacked(found: TradeOff) -> str:
    """How often who knows most was right at the chosen noise, and what the proof allows."""
    point = found.points[found.chosen]
    allowed = f"the proof allows {at_most(point.proof)} among {found.candidates} candidates."
    for item in reversed(point.attackers):
        if item.units:
            return (
                f"Knowing {ATTACKERS[item.knows]}, attackers were right in {item.recovered} of "
                f"{item.units} games; {allowed}"
            )
    return f"Nothing was attacked under this protection; {allowed}"
