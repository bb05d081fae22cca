"""A whole training as the certificate sees it: four numbers and who knows the batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from trilemma.errors import InvalidInput
from trilemma.quantities import counted, one_of

__all__ = ["Participation", "Training"]

Participation = Literal["secret", "known"]


@dataclass(frozen=True)
class Training:
    """R rounds; each holds a record with probability q and hides it behind noise z.

    `noise_multiplier` z is the standard deviation of the noise over the influence of one record
    (see `trilemma.accounting.noise_multiplier`); a full batch has q = 1. `participation` says
    whether the attacker knows which rounds hold the record. It can be secret only under Poisson
    sampling from the system's own generator; fixed-size batches, epochs, a seed that the server
    knows and released batch counts make it known. `records_of_person` k says that k records,
    each sampled by itself, are to be hidden together.

    >>> round(Training(rounds=150, q=4 / 6000, noise_multiplier=0.36).used, 3)
    0.095
    """

    rounds: int
    q: float
    noise_multiplier: float
    participation: Participation = "known"
    records_of_person: int = 1

    def __post_init__(self) -> None:
        counted("rounds", self.rounds)
        counted("records_of_person", self.records_of_person)
        if not 0 < self.q <= 1:
            raise InvalidInput(
                f"q (probability that a round holds the record) must lie in (0, 1], got {self.q}; "
                f"a full batch has q = 1."
            )
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise InvalidInput(
                f"noise_multiplier must be positive and finite, got {self.noise_multiplier}; "
                f"without noise nothing is certified."
            )
        one_of("participation", self.participation, ("secret", "known"))

    @property
    def used(self) -> float:
        """u = 1 - (1 - q)^(kR): the probability that any round holds any of the records."""
        if self.q == 1:
            return 1.0
        return -math.expm1(self.rounds * self.records_of_person * math.log1p(-self.q))
