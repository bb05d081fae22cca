"""What became of games: wins by attack and by client, the tests passed, the strength found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from trilemma.game.jobs import AttackJob
from trilemma.tuning.calibration.outcomes import Calibration, Tested

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.execution.scheduler import Procedure
    from trilemma.game.job_results import AttackResult

__all__ = [
    "CONTROL",
    "Counts",
    "GameKey",
    "GameResults",
    "Measured",
    "counted",
    "cut",
    "pieces",
    "played",
    "recording",
    "seen_of",
    "total",
]

CONTROL: Final = "control"
"""The stream of unprotected single rounds, which all families share."""

Found = TypeVar("Found")
GameKey = tuple[str, str, str, int]
"""A game that an attack plays: its stream, the protection, the attack, the game's number."""


@dataclass(frozen=True)
class Counts:
    """Games played and won, by attack, and by client (games, wins) for the strongest attack.

    `after` are those won after each of a training's `checkpoints`, by attack.
    """

    units: int
    by_attack: dict[str, int]
    by_client: dict[int, tuple[int, int]]
    failed: int
    after: dict[str, tuple[int, ...]] = field(default_factory=dict)

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

    `counts` are fresh games of the leading attack at the strength found, after all tests; None
    where there is none. `games` is how many were played for all of it.
    """

    calibration: Calibration
    tests: tuple[Tested, ...]
    counts: Counts | None
    games: int = 0
    note: str = ""


def recording(procedure: Procedure[Found], games: set[GameKey]) -> Procedure[Found]:
    """The same procedure; notes each game of each attack, but for the control's."""
    try:
        jobs = next(procedure)
        while True:
            games.update(
                (job.stream, job.protection, attack, number)
                for job in jobs
                if isinstance(job, AttackJob) and job.stream != CONTROL
                for attack in job.attacks
                for number in job.games
            )
            jobs = procedure.send((yield jobs))
    except StopIteration as end:
        found: Found = end.value
        return found


@dataclass(frozen=True)
class GameResults:
    """The games of one job: clients, right guesses, how many failed; `after` as in `Counts`."""

    client: NDArray[np.int64]
    correct: dict[str, NDArray[np.bool_]]
    failed: int
    after: dict[str, tuple[int, ...]] = field(default_factory=dict)


def cut(job: AttackJob, chunk: int) -> list[AttackJob]:
    """The same games, `chunk` of them a job."""
    end = job.first + job.count
    return [
        replace(job, first=first, count=min(chunk, end - first))
        for first in range(job.first, end, chunk)
    ]


def played(job: AttackJob, chunk: int) -> Procedure[GameResults]:
    """The games of a job, `chunk` of them at a time."""
    return seen_of(job, (yield cut(job, chunk)))


def seen_of(job: AttackJob, parts: Sequence[AttackResult]) -> GameResults:
    """The games of a job that was cut, of which these are the parts."""
    wins = {name: [np.asarray(part.correct[name]) for part in parts] for name in job.attacks}
    return GameResults(
        np.concatenate([np.asarray(part.client) for part in parts]),
        {name: np.concatenate(win) for name, win in wins.items()},
        sum(sum(part.failed.values()) for part in parts),
        {name: total([part.won_after(name) for part in parts]) for name in job.attacks},
    )


def pieces(looks: Sequence[int], most: int) -> list[tuple[int, int]]:
    """(first, count) of the jobs between looks, the same for a look as for all later ones.

    Those between two looks are as even as can be, of so many games at `most`.

    >>> pieces((6, 30), 16)
    [(0, 6), (6, 12), (18, 12)]
    """
    found = []
    for start, end in pairwise((0, *looks)):
        parts = math.ceil((end - start) / most)
        cuts = [start + round((end - start) * number / parts) for number in range(parts + 1)]
        found += [(first, last - first) for first, last in pairwise(cuts)]
    return found


def counted(seen: Sequence[GameResults]) -> Counts:
    """The games of several requests together."""
    client = np.concatenate([item.client for item in seen])
    names = seen[0].correct.keys()
    correct = {name: np.concatenate([item.correct[name] for item in seen]) for name in names}
    by_attack = {name: int(wins.sum()) for name, wins in correct.items()}
    strongest = max(by_attack, key=by_attack.__getitem__)
    by_client = {
        int(k): (int((client == k).sum()), int(correct[strongest][client == k].sum()))
        for k in np.unique(client)
    }
    after = {name: total([item.after[name] for item in seen]) for name in seen[0].after}
    return Counts(len(client), by_attack, by_client, sum(item.failed for item in seen), after)


def total(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The sum of each column.

    >>> total([(1, 2), (0, 3)])
    (1, 5)
    """
    return tuple(map(sum, zip(*rows, strict=True)))
