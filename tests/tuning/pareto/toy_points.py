"""Points of a made-up front."""

from __future__ import annotations

from trilemma.game.estimates import Estimate
from trilemma.tuning.results.points import Point


def toy(family: str, place: float) -> Point:
    leaked, lost = (1 - place) ** 2, place**2 + 0.1 * (family == "b")
    return Point(
        family,
        place,
        leakage=Estimate(leaked, 0, 1),
        utility_loss=Estimate(lost, 0, 1),
        efficiency_reduction=Estimate(0, 0, 0),
    )
