"""What a verdict claims: over how many rounds, out of how many candidates, what is granted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np

from trilemma.errors import InvalidInput

__all__ = ["CANDIDATES", "Claim", "Participation", "checkpoints"]

Participation = Literal["secret", "known"]
CANDIDATES: Final = 100
_FEWEST: Final = 20  # candidates below which the client's own records make no candidate set


@dataclass(frozen=True)
class Claim:
    """The game that an attacker plays for one record of one client.

    `rounds` of training are observed; 1 is one round that is known to hold the record. The
    attacker guesses one of `candidates` (N), so that a blind guess succeeds in exactly 1/N of all
    games. The candidates are records of the client itself, all but one of them set aside; where
    a client has too few they come from all clients and one is `inserted`. Participation (which
    rounds hold the record) is granted to the attacker where it is `known`. Clients set `apart`
    hold too few records for a candidate set, where most others have enough: no game is about
    theirs.
    """

    rounds: int
    candidates: int
    inserted: bool = False
    participation: Participation = "known"
    apart: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InvalidInput(f"rounds must be at least 1, got {self.rounds}.")
        if self.candidates < 2:
            raise InvalidInput(
                f"a candidate set needs at least 2 candidates, got {self.candidates}; give the "
                "clients "
                f"more records."
            )

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        unit_size: int,
        *,
        rounds: int,
        candidates: int | None = None,
    ) -> Self:
        """The largest candidate set up to 100 that clients with so many distinct records allow.

        One round: min(100, n - S + 1), the decoys are outside the batch. A training, or an update
        of all records: min(100, 1 + n // 4), the decoys leave the client's data. Where that is
        fewer than 20, the candidates come from all clients' records; but where that is so of a
        minority of clients alone, these are set apart.

        >>> Claim.of([150] * 10, 4, rounds=150).candidates
        38
        >>> Claim.of([150] * 10, 4, rounds=1).candidates
        100
        """

        def largest(size: int) -> int:
            return 1 + size // 4 if rounds > 1 or unit_size >= size else size - unit_size + 1

        wanted = CANDIDATES if candidates is None else candidates
        small = tuple(k for k, size in enumerate(sizes) if largest(size) < min(wanted, _FEWEST))
        apart = small if 2 * len(small) < len(sizes) else ()
        own = min(largest(size) for k, size in enumerate(sizes) if k not in apart)
        inserted = own < min(wanted, _FEWEST)
        most = 1 + sum(sizes) // 4 if inserted else own
        if candidates is not None and candidates > most:
            raise InvalidInput(
                f"a candidate set of {candidates} candidates was asked for, but these clients "
                "allow "
                f"{most}; ask for fewer, or leave it out."
            )
        return cls(rounds, min(wanted, most), inserted, apart=apart)

    @property
    def kappa(self) -> float:
        """The rate at which a blind guess succeeds, exactly 1/N."""
        return 1 / self.candidates


def checkpoints(rounds: int) -> tuple[int, ...]:
    """Numbers of rounds after which a training's attacker guesses, evenly spread on a log scale.

    >>> checkpoints(150), checkpoints(1)
    ((1, 3, 7, 20, 55, 150), ())
    """
    if rounds == 1:
        return ()
    steps = np.unique(np.geomspace(1, rounds, 6).round().astype(int))
    return tuple(int(step) for step in steps)
