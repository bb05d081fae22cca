"""Observations check themselves; an adversary is one of two, and no text."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.observations import Adversary, Observation

UPDATE = torch.zeros(5)


def test_an_adversary_is_told_by_its_value() -> None:
    assert Adversary("client") is Adversary.CLIENT
    assert [item.value for item in Adversary] == ["server", "client"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"update": torch.zeros(2, 2)}, r"flat vector, got shape \(2, 2\)"),
        ({"known": torch.ones(4, dtype=torch.bool)}, r"got torch.bool of shape \(4,\)"),
        ({"known": torch.ones(5)}, "got torch.float32"),
        ({"weights": (1.0, 2.0)}, "got 2 for 1"),
        ({"clients": 0}, "got no for 0"),
        ({"clients": 2, "weights": torch.ones(2, 4)}, "weights"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Observation(**{"update": UPDATE, **fields})


def test_what_fits_is_taken() -> None:
    known = torch.tensor([True, False, True, True, False])
    seen = Observation(UPDATE, known=known, weights=(0.25, 0.75), clients=2)
    assert seen.clients == 2
