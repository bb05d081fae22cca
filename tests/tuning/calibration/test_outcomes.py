"""What a calibration hands back: a rise is reported where it is significant."""

from __future__ import annotations

from trilemma.tuning.calibration.outcomes import (
    Tested,
    non_monotone,
)


def test_only_a_significant_rise_counts() -> None:
    falling = [Tested("", x, 40, s) for x, s in ((0.0, 39), (0.5, 20), (1.0, 1))]
    assert non_monotone(falling) is None
    assert non_monotone([*falling, Tested("", 1.5, 40, 3)]) is None
    assert non_monotone([*falling, Tested("", 1.5, 40, 30)]) == (1.0, 1.5)
    # Neighbours are pooled: six units each would show nothing.
    scattered = [Tested("", x / 10, 6, 0) for x in range(6)]
    scattered += [Tested("", 1 + x / 10, 6, 4) for x in range(6)]
    found = non_monotone(scattered)
    assert found is not None
    assert found[0] <= 0.5 < 1.0 <= found[1]
