"""Records split over clients: evenly, or by a Dirichlet distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.records.records import Records
from trilemma.scenarios.partition import partition


def test_an_even_partition_is_even_and_disjoint() -> None:
    records = Records(torch.arange(103.0)[:, None], torch.arange(103) % 5)
    parts = partition(records, 4, alpha=None, minimum=1, seed=0)
    assert sorted(len(part) for part in parts) == [25, 26, 26, 26]
    assert sorted(torch.cat([p.inputs for p in parts]).flatten().tolist()) == list(range(103))


def test_a_dirichlet_partition_is_skewed_and_loses_nothing() -> None:
    records = Records(torch.arange(2000.0)[:, None], torch.arange(2000) % 5)

    def skew(alpha: float) -> float:
        parts = partition(records, 4, alpha=alpha, minimum=2, seed=0)
        assert sorted(torch.cat([p.inputs for p in parts]).flatten().tolist()) == list(range(2000))
        counts = np.array([np.bincount(p.labels.numpy(), minlength=5) for p in parts])
        return float((counts / counts.sum(axis=0)).std())

    assert skew(0.1) > 0.3 > 0.05 > skew(1000.0)


def test_partitions_that_cannot_be_are_refused() -> None:
    records = Records(torch.rand(20, 1), torch.zeros(20, dtype=torch.long))
    with pytest.raises(InvalidInput, match="too few for 8 clients"):
        partition(records, 8, alpha=None, minimum=3, seed=0)
    with pytest.raises(InvalidInput, match="raise alpha"):
        partition(records, 6, alpha=0.001, minimum=3, seed=0)
    for alpha in (0.0, float("nan"), float("inf"), 5e-324, 1e308):
        with pytest.raises(InvalidInput, match="alpha"):
            partition(records, 2, alpha=alpha, minimum=1, seed=0)
    with pytest.raises(InvalidInput, match="clients must be at least 1"):
        partition(records, 0, alpha=None, minimum=1, seed=0)
