"""Parameters: which way is stronger, and by how much."""

from __future__ import annotations

import math

import pytest

from trilemma.protection.parameter import Parameter

LARGER = Parameter("s", "more is more", "larger")
SMALLER = Parameter("k", "less is more", "smaller", (0.0, 1.0))


@pytest.mark.parametrize("parameter", [LARGER, SMALLER])
@pytest.mark.parametrize("decades", [-2.0, 0.0, 0.3])
def test_a_move_is_counted_in_the_decades_that_made_it(
    parameter: Parameter, decades: float
) -> None:
    moved = parameter.moved(0.02, decades)
    assert parameter.decades(0.02, moved) == pytest.approx(decades, abs=1e-12)
    assert (moved > 0.02) == ((parameter is LARGER) == (decades > 0) and decades != 0)


def test_values_stay_within_the_domain() -> None:
    assert SMALLER.within(3.0) == 1.0
    assert SMALLER.within(0.3) == 0.3
    assert LARGER.within(1e99) == 1e99
    assert Parameter("k", "at least one", "larger", (1.0, math.inf)).within(0.1) == 1.0
