"""The law of bounded masks where clients have different boxes."""

from __future__ import annotations

import numpy as np
import pytest

from trilemma.paper.mechanisms import mechanism
from trilemma.paper.mechanisms.base import strength_for
from trilemma.paper.profile import Profile


def test_clients_with_different_boxes_by_brute_force() -> None:
    """mean_k TV_k(r) = q on a fine grid of r, with the plain formula."""
    m, deltas, q = 3, [0.4, 0.5, 0.9], 0.35
    profiles = [Profile(m, delta=delta) for delta in deltas]
    found = (
        mechanism("secret-sharing")
        .value(strength_for(mechanism("secret-sharing"), q, profiles))
        .value
    )
    grid = np.linspace(0.4, 2.0, 1_600_001)
    curve = np.mean([np.clip(1 - (d / grid) ** m, 0, None) for d in deltas], axis=0)
    assert found == pytest.approx(grid[np.searchsorted(curve, q)], abs=2e-6)
