"""The shape of a record and the range of its entries."""

from __future__ import annotations

import math

import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import Column
from trilemma.records.range import InputSpec
from trilemma.records.records import Records


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


TABLE = (
    Column("a", mean=1.0, deviation=2.0, low=-2.0, high=6.0),
    Column("b", "category", ("x", "y")),
)


def test_each_column_has_a_range_of_its_own() -> None:
    spec = InputSpec((3,), -2.0, 6.0, TABLE)
    unit = torch.tensor([0.5, 0.5, 0.5])
    assert spec.inputs(unit).tolist() == [2.0, 0.5, 0.5]
    torch.testing.assert_close(spec.units(spec.inputs(unit)), unit)
    starts = spec.typical(torch.tensor([1.0, 1.0, -1.0]), 0.1)
    torch.testing.assert_close(spec.inputs(starts), torch.tensor([3.0, 0.6, 0.4]))
    assert spec.settled(torch.tensor([9.0, 0.4, 0.6])).tolist() == [6.0, 0.0, 1.0]
    plain = InputSpec((3,), -2.0, 6.0)
    assert plain.settled(torch.tensor([9.0, 0.4, -3])).tolist() == pytest.approx([6.0, 0.4, -2.0])
    assert plain.searched(unit).tolist() == [2.0, 2.0, 2.0]
    assert repr(spec) == repr(plain)


def test_columns_stand_for_all_entries() -> None:
    with pytest.raises(InvalidInput, match="2 columns of this table stand for 3 entries"):
        InputSpec((4,), 0.0, 1.0, TABLE)


def test_what_an_embedding_looks_up_has_no_slope() -> None:
    assert not InputSpec((3,), -2.0, 6.0, TABLE).discrete
    assert InputSpec((1,), 0.0, 1.0, (Column("c", "code", ("x", "y")),)).discrete
    tokens = Records(torch.tensor([[0, 4], [2, 1]]), torch.tensor([0, 1]))
    spec = InputSpec.of([tokens], [tokens])
    assert spec.discrete
    assert spec.vocabulary == 5
