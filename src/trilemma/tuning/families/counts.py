"""What became of games: wins by attack and by client, the tests passed, the strength found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilemma.tuning.calibrating.outcomes import Calibration, Tested

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Counts", "Measured", "Seen", "counted"]


@dataclass(frozen=True)
class Counts:
    """Games played and won, by attack, and by client (games, wins) for the strongest attack."""

    units: int
    by_attack: dict[str, int]
    by_client: dict[int, tuple[int, int]]
    failed: int

    @property
    def strongest(self) -> str:
        """The attack that won most games."""
        return max(self.by_attack, key=self.by_attack.__getitem__)

    @property
    def successes(self) -> int:
        """Games that the strongest attack won."""
        return self.by_attack[self.strongest]


@dataclass(frozen=True)
class Measured:
    """How a family fared: its calibration, the test of every attack, and what was counted.

    `counts` are those of the strength found, by the leading attack's own test; None where there
    is none.
    """

    calibration: Calibration
    tests: tuple[Tested, ...]
    counts: Counts | None
    note: str = ""


@dataclass(frozen=True)
class Seen:
    """What became of the games of one request."""

    client: NDArray[np.int64]
    correct: dict[str, NDArray[np.bool_]]
    failed: int


def counted(seen: Sequence[Seen]) -> Counts:
    """The games of several requests together."""
    client = np.concatenate([each.client for each in seen])
    names = seen[0].correct.keys()
    correct = {name: np.concatenate([each.correct[name] for each in seen]) for name in names}
    by_attack = {name: int(wins.sum()) for name, wins in correct.items()}
    strongest = max(by_attack, key=by_attack.__getitem__)
    by_client = {
        int(k): (int((client == k).sum()), int(correct[strongest][client == k].sum()))
        for k in np.unique(client)
    }
    return Counts(len(client), by_attack, by_client, sum(each.failed for each in seen))
