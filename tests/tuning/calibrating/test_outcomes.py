"""What a calibration hands back: a rise is reported where it is significant."""

from __future__ import annotations

from trilemma.tuning.calibrating.outcomes import (
    TestedStrength,
    non_monotone,
)


def test_only_a_significant_rise_counts() -> None:
    falling = [TestedStrength(x, 40, s, "explore") for x, s in ((0.0, 39), (0.5, 20), (1.0, 1))]
    assert non_monotone(falling) is None
    assert non_monotone([*falling, TestedStrength(1.5, 40, 3, "walk")]) is None
    assert non_monotone([*falling, TestedStrength(1.5, 40, 30, "walk")]) == (1.0, 1.5)
    # Neighbours are pooled: six units each would show nothing.
    scattered = [TestedStrength(x / 10, 6, 0, "explore") for x in range(6)]
    scattered += [TestedStrength(1 + x / 10, 6, 4, "explore") for x in range(6)]
    found = non_monotone(scattered)
    assert found is not None
    assert found[0] <= 0.5 < 1.0 <= found[1]
