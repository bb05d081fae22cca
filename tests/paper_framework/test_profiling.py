"""What each client sends, as the paper assumes it: m, δ, σᵢ."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.federation.small import federation
from torch.nn.functional import cross_entropy

from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining
from trilemma.paper_framework.profiling import client_profiles

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)


def test_the_profiles_are_those_of_fresh_updates() -> None:
    """δ and the mean σ of each client against those of a larger sample made by autograd."""
    scenario = federation(FEDSGD)
    profiles = client_profiles(scenario)
    assert len(profiles) == len(scenario.records)
    start = scenario.task.layout.unflatten(fresh_weights(scenario, [0])[0])
    scenario.model.load_state_dict(start)
    draw = np.random.default_rng(0)
    for records, profile in zip(scenario.records, profiles, strict=True):
        rows = []
        for _ in range(300):
            batch = records[torch.from_numpy(draw.choice(len(records), 6, replace=False))]
            loss = cross_entropy(scenario.model(batch.inputs), batch.labels)
            grads = torch.autograd.grad(loss, list(scenario.model.parameters()))
            rows.append(torch.cat([grad.reshape(-1) for grad in grads]).numpy())
        expected = np.stack(rows).std(axis=0, ddof=1)
        assert profile.parameters == 39
        assert isinstance(profile.sigma, np.ndarray)
        assert profile.sigma.mean() == pytest.approx(expected.mean(), rel=0.15)
        assert profile.delta == pytest.approx(np.ptp(np.stack(rows), axis=0).max() / 2, rel=0.35)


def test_clients_with_other_records_have_other_profiles() -> None:
    first, second, *_ = client_profiles(federation(FEDSGD))
    assert first.delta != second.delta
