"""Rounds that cannot be, and seeds that never repeat."""

from __future__ import annotations

from typing import Any

import pytest

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protections.round_info import RoundInfo


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": ""}, "run"),
        ({"number": -1}, "number"),
        ({"participants": ()}, "participants"),
        ({"participants": (1, 1)}, "distinct"),
        ({"participants": (2, 1)}, "rising"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": 4}, "threshold"),
        ({"mask_seed": -1}, "mask_seed"),
    ],
)
def test_impossible_rounds_are_refused(change: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {
        "run": "r",
        "number": 0,
        "participants": (0, 1, 5),
        "threshold": 2,
        "mask_seed": 3,
    }
    RoundInfo(**good)
    with pytest.raises(InvalidInput, match=why):
        RoundInfo(**{**good, **change})


def test_a_new_round_has_a_new_mask_seed() -> None:
    seeds = {RoundInfo.new(range(3), Seeded(1), number=n).mask_seed for n in range(50)}
    assert len(seeds) == 50
    assert RoundInfo.new(range(3), System()) != RoundInfo.new(range(3), System())
