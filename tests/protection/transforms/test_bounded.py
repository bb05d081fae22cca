"""Bounded masks: uniform, cancelling, and as weak as their label says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from tests.protection.transforms.applying import LEAST_P, a_round, apply, some_values

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.transforms.bounded import BoundedMask


@pytest.mark.parametrize("clients", [2, 3, 4, 7])
def test_bounded_masks_are_uniform_and_cancel(clients: int) -> None:
    info = a_round(clients=clients)
    zero = torch.zeros(20_000, dtype=torch.float64)
    masks = torch.stack(
        [apply(BoundedMask(0.5), zero, client=k, info=info).values for k in range(clients)]
    )
    assert masks.sum(dim=0).abs().max() < 1e-14
    for mask in masks:
        assert stats.kstest(mask.numpy(), "uniform", (-0.5, 1.0)).pvalue > LEAST_P
    if clients > 3:  # no smaller group is known to cancel
        for pair in (masks[:2], masks[1:3]):
            assert (pair.sum(dim=0).abs() < 1e-12).double().mean() < 0.5


def test_bounded_masks_exclude_wrong_candidates_as_their_label_says() -> None:
    """Measured: a candidate at distance d survives with probability Π(1 - |dᵢ|/2r)."""
    rng = np.random.default_rng(10)
    size, bound = 400, 1.0
    truth = torch.from_numpy(rng.uniform(-0.01, 0.01, size))
    wrong = torch.from_numpy(rng.uniform(-0.01, 0.01, size))
    distance = (wrong - truth).abs()
    predicted = float(torch.prod(1 - distance / (2 * bound)))
    survived = 0
    for seed in range(600):
        seen = apply(BoundedMask(bound), truth, info=a_round(clients=1), entropy=Seeded(seed))
        survived += bool(((seen.values - wrong).abs() <= bound).all())
    assert 0.1 < predicted < 0.5, "100 times the update's width, and still excluded mostly"
    assert stats.binomtest(survived, 600, predicted).pvalue > LEAST_P


def test_bounded_masks_are_for_measurement_only() -> None:
    with pytest.raises(InvalidInput, match="SecretSharing transport"):
        apply(BoundedMask(1.0), some_values(3), entropy=System())
    with pytest.raises(InvalidInput, match="bound"):
        BoundedMask(0.0)
