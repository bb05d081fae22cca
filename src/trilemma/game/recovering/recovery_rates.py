"""How much was recovered: rates and leakage with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from trilemma.game.estimates import Estimate, mean_leakage, success_rate

if TYPE_CHECKING:
    from trilemma.game.recovering.recoveries import Outcomes

__all__ = ["Rates"]

ATTACK_WORKS: Final = 0.5
"""A control that recovers less says that the attack failed, not that the data is safe."""


@dataclass(frozen=True)
class Rates:
    """Of one record a unit, the target, drawn before the attack; and of all records.

    Leakage is the mean over clients of H_κ of the target record's rate.
    """

    recovered: int
    units: int
    success: Estimate
    success_all: float
    leakage: Estimate
    failed: int

    @classmethod
    def of(cls, outcomes: Outcomes, *, confidence: float = 0.95, kappa: float = 0.0) -> Self:
        """The rates of units that are alike over the clients, by their first attempt."""
        target, every = outcomes.target(), outcomes.counted[:, 0]
        clients = np.unique(outcomes.client)
        hits = [int(target[outcomes.client == k].sum()) for k in clients]
        trials = len(target) // len(clients)  # clients take turns, so all have as many units
        return cls(
            recovered=int(target.sum()),
            units=len(target),
            success=success_rate(int(target.sum()), len(target), confidence),
            success_all=float(every.mean()),
            leakage=mean_leakage(hits, trials, confidence=confidence, kappa=kappa),
            failed=int(outcomes.failed[:, 0].sum()),
        )

    @property
    def attack_works(self) -> bool:
        """Whether enough is recovered to say anything of what protects."""
        return self.success.value >= ATTACK_WORKS
