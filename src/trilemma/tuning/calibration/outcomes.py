"""What a calibration wants to be played, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from scipy.special import betaincinv

from trilemma.errors import InvalidInput

__all__ = [
    "UNPROTECTED",
    "Calibration",
    "Control",
    "Tested",
    "Trial",
    "Trials",
    "counts_by_strength",
    "non_monotone",
]

UNPROTECTED: Final = -math.inf  # log₁₀ of strength 0
_ODD: Final = 0.01  # level of the report that a curve is not monotone


@dataclass(frozen=True)
class Trial:
    """`units` fresh games, numbered from `first_unit`, to be played at one strength.

    `strength` is log₁₀ of it over the warm start, `UNPROTECTED` for no protection.
    """

    strength: float
    units: int
    stage: str
    first_unit: int


Found = TypeVar("Found")
Trials = Generator[Sequence[Trial], Sequence[int], Found]
"""Yields trials, is sent the games won of each, and returns what it found.

A game in which the attack diverged counts as won, and none may be left out.
"""


@dataclass(frozen=True)
class Control:
    """How the attack fares without any protection."""

    successes: int
    units: int

    def __post_init__(self) -> None:
        _check(self.successes, self.units)


@dataclass(frozen=True)
class Tested:
    """Games of one attack at one strength, and how many it won; `passed` None: only explored.

    Inside a calibration `strength` is log₁₀ of it over the warm start, as everywhere in this
    package; in a verdict it is the family's own value, None without protection. `level` is that of
    the test. `after` are the games of a training won after each of its `checkpoints`.
    """

    __test__ = False  # a name that pytest would collect

    attack: str
    strength: float | None
    units: int
    recovered: int
    passed: bool | None = None
    stage: str = ""
    level: float | None = None
    after: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for won in (self.recovered, *self.after):
            _check(won, self.units)


def _check(won: int, games: int) -> None:
    if not 0 <= won <= games or games < 1:
        raise InvalidInput(f"of at least one game none to all are won, got {won} of {games}.")


@dataclass(frozen=True)
class Calibration:
    """The result. `strength` is exactly as tested, never rounded or interpolated.

    What is shown, at confidence 1 - α, is that the success rate there is at most `p_max`; None:
    of no strength.
    """

    p_max: float
    strength: float | None
    points: tuple[Tested, ...]
    units: int
    reason: str
    smallest_upper_limit: float | None = None
    non_monotone: tuple[float, float] | None = None

    @property
    def tested(self) -> tuple[Tested, ...]:
        """The points that were tested with fresh units, in order."""
        return tuple(point for point in self.points if point.passed is not None)


def counts_by_strength(points: Sequence[Tested]) -> dict[float, tuple[int, int]]:
    """(successes, units) seen at each strength over all stages, from weak to strong."""
    seen = [(UNPROTECTED if point.strength is None else point.strength, point) for point in points]
    counts = dict.fromkeys(sorted({strength for strength, _ in seen}), (0, 0))
    for strength, item in seen:
        successes, units = counts[strength]
        counts[strength] = successes + item.recovered, units + item.units
    return counts


def non_monotone(points: Sequence[Tested]) -> tuple[float, float] | None:
    """(weaker, stronger) x where success rises significantly with strength, if anywhere.

    Neighbouring strengths are pooled: on a falling curve no run of weaker ones can have a lower
    mean rate than a run of stronger ones. Every run gets a Clopper-Pearson interval at a level
    shared by them all; two that lie apart the wrong way round are reported by their nearest ends.
    """
    counts = counts_by_strength(points)
    xs = list(counts)
    totals = np.cumsum([(0, 0), *counts.values()], axis=0).T
    starts, ends = np.triu_indices(len(xs) + 1, 1)
    successes, units = totals[:, ends] - totals[:, starts]
    tail = _ODD / (2 * len(starts))
    with np.errstate(all="ignore"):  # no success has no lower limit: set just below
        low = np.where(successes == 0, 0.0, betaincinv(successes, units - successes + 1, tail))
        high = np.where(
            successes == units, 1.0, betaincinv(successes + 1, units - successes, 1 - tail)
        )
    for cut in range(1, len(xs)):
        if low[starts >= cut].max() > high[ends <= cut].min():
            stronger = starts[starts >= cut][low[starts >= cut].argmax()]
            return xs[cut - 1], xs[int(stronger)]
    return None
