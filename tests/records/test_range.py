"""The shape of a record and the range of its entries."""

from __future__ import annotations

import math

import pytest

from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec


def test_the_size_is_the_product() -> None:
    assert InputSpec((3, 4, 5), 0.0, 1.0).size == 60
    assert InputSpec((7,), -1.0, 1.0).size == 7


@pytest.mark.parametrize("shape", [(), (0,), (3, -1)])
def test_a_shape_has_positive_sizes(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="positive sizes"):
        InputSpec(shape, 0.0, 1.0)


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_a_range_rises_and_ends(ends: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="low < high"):
        InputSpec((2,), *ends)
