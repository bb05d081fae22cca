"""Leakage against rounds: one curve for each attacker, measured or proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
from trilemma.tuning.request import KNOWLEDGE

if TYPE_CHECKING:
    from trilemma.game.estimates import Estimate
    from trilemma.tuning.results.verdict import RoundsPoint

__all__ = ["Series", "rounds_series"]


@dataclass(frozen=True)
class Series:
    """One curve: who attacks, whether it is proved, and (rounds, leakage) from few to many."""

    name: str
    certified: bool
    points: tuple[tuple[int, Estimate], ...]


def rounds_series(points: Sequence[RoundsPoint]) -> tuple[Series, ...]:
    """The curves: the measured ones from the least knowledge up, then what is proved."""
    found: dict[tuple[bool, int, str], list[tuple[int, Estimate]]] = {}
    for point in points:
        key = (point.certified, KNOWLEDGE.index(point.knows), point.participation)
        found.setdefault(key, []).append((point.rounds, point.leakage))
    return tuple(
        Series(
            f"{'proved for anyone' if certified else f'knows {WHAT_IS_KNOWN[KNOWLEDGE[knows]]}'}, "
            f"participation {participation}",
            certified,
            tuple(sorted(drawn, key=lambda pair: pair[0])),
        )
        for (certified, knows, participation), drawn in sorted(
            found.items(), key=lambda pair: pair[0]
        )
    )
