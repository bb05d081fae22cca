"""Each client's profile (m, δ, σᵢ), from updates that it would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.entropy import Seeded
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import client_update, draw_rows
from trilemma.paper_framework.profile import Profile

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = ["client_profiles"]

_SAMPLES: Final = 64  # of each client
_MOST_COORDINATES: Final = 1 << 24  # of one client's sampled updates together


def client_profiles(scenario: Scenario, *, seed: int = 0) -> tuple[Profile, ...]:
    """m, δ and σᵢ of what each client sends from one fresh model, over random batches.

    The paper's P_k^O: the model is given and the batch is random. At most 64 updates a client,
    fewer of a large model.
    """
    size = scenario.task.layout.size
    samples = max(2, min(_SAMPLES, _MOST_COORDINATES // size))
    weights = fresh_weights(scenario, [0], seed=seed)[0]
    draws, profiles = Seeded(seed), []
    for client, records in enumerate(scenario.records):
        updates = []
        for index in range(samples):
            draw = draws.generator("profile", client, index)
            rows, present = draw_rows(scenario.local_training, len(records), draw)
            batch = records[rows].to(scenario.device)
            there = None if present is None else present.to(scenario.device)
            update = client_update(
                scenario.task, weights, batch.inputs, batch.labels, scenario.local_training, there
            )
            updates.append(update.detach().cpu().numpy())
        profiles.append(Profile.of(np.stack(updates)))
    return tuple(profiles)
