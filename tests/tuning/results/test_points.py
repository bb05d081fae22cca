"""A point's objectives: bounded, and rounded to what can be told apart."""

from __future__ import annotations

import pytest

from trilemma.game.estimates import Estimate
from trilemma.tuning.results.points import RESOLUTION, Point


def at(loss: float, reduction: float) -> Point:
    return Point(
        "a",
        0.5,
        leakage=Estimate(0.1234, 0, 1),
        utility_loss=Estimate(loss, 0, 0),
        efficiency_reduction=Estimate(reduction, 0, 0),
    )


def test_objectives_are_bounded_and_rounded() -> None:
    assert at(0.5, 0.0).objectives == pytest.approx((0.123, 0.5, 0.5))
    assert at(0.5, 1e9).objectives == pytest.approx((0.123, 0.5, 1.0))
    assert at(0.5, 0.02).objectives == at(0.5, -0.02).objectives, "less than a clock can tell"
    assert all(step > 0 for step in RESOLUTION)


def test_without_costs_there_are_none_and_a_key_leaks_nothing() -> None:
    assert Point("a", 0.5).objectives is None
    free = Estimate(0, 0, 0)
    key = Point("paillier", None, utility_loss=free, efficiency_reduction=free)
    assert key.objectives == (0.0, 0.0, 0.5)
