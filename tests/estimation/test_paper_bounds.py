"""The paper's bounds beside what is measured, and the profile that they need."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.estimation.test_costs import FEDSGD
from tests.federation.small import federation
from torch.nn.functional import cross_entropy

from trilemma.estimation.models import fresh_weights
from trilemma.estimation.paper_bounds import paper_bounds, update_profile
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression, LayerCompression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transforms.top_k import TopK
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.updates import Profile


def test_the_papers_bounds_by_hand() -> None:
    profile = Profile(3, delta=0.5, sigma=2.0)
    (thinned,) = paper_bounds(Protection((Compression(0.9),)), profile, c4=2.0, c5=4.0)
    assert thinned.utility_loss == pytest.approx(2.0 * (1 - 0.9**3))
    assert thinned.efficiency_reduction == pytest.approx(4.0 * (1 - 0.9**3))
    layers = LayerCompression(((0.9, 1), (0.8, 1), (1.0, 1)))
    (uneven,) = paper_bounds(Protection((layers,)), profile)
    assert uneven.utility_loss == pytest.approx(1 - 0.9 * 0.8)
    (noisy,) = paper_bounds(Protection((Randomization(0.1),)), profile)
    assert noisy.utility_loss == pytest.approx(1.5 * 0.1 * math.sqrt(3 / 2.0**4))
    (masked,) = paper_bounds(Protection((BoundedMask(1.0),)), profile)
    assert masked.utility_loss == 0.0
    assert masked.efficiency_reduction == pytest.approx(1 - (0.5 / 1.0) ** 3)
    (narrow,) = paper_bounds(Protection((BoundedMask(0.4),)), profile)
    assert narrow.efficiency_reduction == 0.0
    two = paper_bounds(Protection((Compression(0.9),), SecretSharing()), profile)
    assert [each.mechanism for each in two] == ["compression", "secret-sharing"]
    assert paper_bounds(Protection((Compression(1.0),)), profile)[0].utility_loss == 0.0
    assert paper_bounds(Protection((TopK(0.5),)), profile) == ()


def test_the_profile_is_that_of_fresh_updates() -> None:
    """δ and the mean σ of our sample against those of another, larger one made by autograd."""
    scenario = federation(FEDSGD)
    profile = update_profile(scenario)
    start = scenario.task.layout.unflatten(fresh_weights(scenario, [0])[0])
    scenario.model.load_state_dict(start)
    draw = np.random.default_rng(0)
    rows = []
    for index in range(300):
        records = scenario.records[index % 3]
        batch = records[torch.from_numpy(draw.choice(len(records), 6, replace=False))]
        loss = cross_entropy(scenario.model(batch.inputs), batch.labels)
        grads = torch.autograd.grad(loss, list(scenario.model.parameters()))
        rows.append(torch.cat([each.reshape(-1) for each in grads]).numpy())
    expected = np.stack(rows).std(axis=0, ddof=1)
    assert profile.parameters == 39
    assert isinstance(profile.sigma, np.ndarray)
    assert profile.sigma.mean() == pytest.approx(expected.mean(), rel=0.1)
    assert profile.delta == pytest.approx(np.ptp(np.stack(rows), axis=0).max() / 2, rel=0.35)
