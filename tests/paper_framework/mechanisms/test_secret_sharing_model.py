"""Bounded masks: clients with different boxes, and what a mask really does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trilemma.paper_framework.mechanisms import mechanism
from trilemma.paper_framework.mechanisms.base import Strength, strength_for
from trilemma.paper_framework.profile import Profile


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


@pytest.mark.parametrize("r", [0.2, 0.5, 0.8, 1.0, 1.7])
def test_the_true_distortion_of_a_mask_by_brute_force(r: float) -> None:
    """½ ∫ |f - g| on a fine grid, f of U(-δ, δ) + U(-r, r), g of U(-δ, δ); m = 1 and 2."""
    delta, model = 0.5, mechanism("secret-sharing")
    axis = (np.arange(4_000) + 0.5) / 4_000 * 5 - 2.5
    step = 5 / 4_000
    inside = (np.abs(axis) < delta) / (2 * delta)
    overlap = np.clip(np.minimum(axis + r, delta) - np.maximum(axis - r, -delta), 0, None)
    masked = overlap / (4 * delta * r)
    one = float(np.abs(masked - inside).sum() * step / 2)
    two = float(np.abs(np.outer(masked, masked) - np.outer(inside, inside)).sum() * step**2 / 2)
    for m, exact in ((1, one), (2, two)):
        profile = Profile(m, delta=delta)
        # counted from another client's narrower box, as a common mask is
        strength = Strength(math.log(math.log(r / 0.1)), math.log(0.1))
        assert model.true_distortion(strength, profile) == pytest.approx(exact, abs=2e-3)
    if r == delta:
        assert one == pytest.approx(0.25, abs=1e-3), "the paper's neutral mask is not neutral"
