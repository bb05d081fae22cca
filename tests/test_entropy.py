from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput


def test_streams_depend_on_their_path_alone() -> None:
    root = Seeded(1)
    first = root.generator("client", 1).random(5)
    root.generator("client", 2).random(1000)
    assert (root.generator("client", 1).random(5) == first).all()
    assert root.integer("a", 1) != root.integer("a", "1"), "parts keep their type"
    assert root.integer("ab") != root.integer("a", "b")
    assert root.child("x").integer("y") != root.integer("y")


def test_torch_streams_repeat() -> None:
    one = torch.rand(4, generator=Seeded(3).torch_generator("noise"))
    two = torch.rand(4, generator=Seeded(3).torch_generator("noise"))
    assert torch.equal(one, two)


def test_first_numbers_of_sibling_streams_are_uniform() -> None:
    firsts = [Seeded(0).generator("unit", i).random() for i in range(2000)]
    assert kstest(firsts, "uniform").pvalue > 1e-3


def test_a_seed_is_a_non_negative_integer() -> None:
    for bad in (-1, 1.5, True, "7"):
        with pytest.raises(InvalidInput, match="seed"):
            Seeded(bad)  # type: ignore[arg-type]  # the point


def test_system_entropy_never_repeats_and_stays_in_range() -> None:
    system = System()
    assert len({system.bytes(16) for _ in range(100)}) == 100
    assert all(0 <= system.below(10) < 10 for _ in range(100))
    assert max(system.bits(8) for _ in range(500)) > 127
    assert np.unique([system.below(3) for _ in range(200)]).tolist() == [0, 1, 2]
