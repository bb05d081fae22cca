"""The paper's bounds of utility loss and efficiency reduction for a protection as it is deployed.

They are vacuous for any real number of parameters (departure E14), which is why they stand beside
a measurement and never in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.entropy import Seeded
from trilemma.estimation.models import fresh_weights
from trilemma.learning import client_update, draw_rows
from trilemma.updates import Profile

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario
    from trilemma.protections.protection import Protection

__all__ = ["PaperBound", "paper_bounds", "update_profile"]

_SAMPLES: Final = 64
_MOST_COORDINATES: Final = 1 << 24  # of all sampled updates together


@dataclass(frozen=True)
class PaperBound:
    """The paper's bounds for one mechanism, at most C₄ and C₅."""

    mechanism: str
    utility_loss: float
    efficiency_reduction: float


def update_profile(scenario: Scenario, *, seed: int = 0) -> Profile:
    """m, δ and σᵢ of the updates that clients send from fresh weights, over units of all clients.

    At most 64 updates, fewer for a large model.
    """
    size = scenario.task.layout.size
    samples = max(2, min(_SAMPLES, _MOST_COORDINATES // size))
    weights = fresh_weights(scenario, [0], seed=seed)[0]
    draws, rows = Seeded(seed), []
    for index in range(samples):
        records = scenario.records[index % len(scenario.records)]
        draw = draws.generator("profile", index)
        unit, present = draw_rows(scenario.local_training, len(records), draw)
        inputs, labels = (
            each[unit].to(scenario.device) for each in (records.inputs, records.labels)
        )
        here = None if present is None else present.to(scenario.device)
        update = client_update(
            scenario.task, weights, inputs, labels, scenario.local_training, here
        )
        rows.append(update.detach().cpu().numpy())
    return Profile.of(np.stack(rows))


def paper_bounds(
    protection: Protection, profile: Profile, *, c4: float = 1.0, c5: float = 1.0
) -> tuple[PaperBound, ...]:
    """The paper's bounds for each mechanism of the protection that has a law.

    Paillier: n = 2^bits. Secure aggregation: r = half the ring. Several ρ: their geometric mean.
    """
    made = []
    for each in protection.parts:
        if (law := each.law) is None:
            continue
        strength = law.strength(each.log_parameter(), profile)
        utility = law.utility_bound(strength.log_dose, profile, c4)
        cost = law.efficiency_bound(strength, profile, c5, "corrected", 1)
        made.append(PaperBound(law.name, utility, cost))
    return tuple(made)
