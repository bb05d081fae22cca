"""Columns of a table: what is near, what is right, and what a record could be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import (
    Column,
    cells,
    column_distance,
    column_hits,
    read_columns,
    relaxed,
    settled,
)

TABLE = (
    Column("weight", "number", shift=70.0, unit=10.0, deviation=2.0, low=-3.0, high=3.0),
    Column("blood", "category", ("0", "A", "B")),
    Column("children", "integer", shift=2.0, unit=4.0, deviation=1.0, low=-0.5, high=2.0),
    Column("town", "code", ("x", "y", "z"), low=0.0, high=2.0),
)


def test_a_found_record_is_one_that_the_table_could_hold() -> None:
    found = settled(TABLE, torch.tensor([[5.0, 0.2, 0.5, 0.3, 0.3, 1.4], [0, 1, 0, 0, 9, -2]]))
    assert found.tolist() == [[3.0, 0.0, 1.0, 0.0, 0.25, 1.0], [0, 1, 0, 0, 2.0, 0.0]]
    assert cells(TABLE, found[0]) == ["100", "A", "3", "y"]
    assert cells(TABLE, torch.full((6,), torch.nan)) == ["–"] * 4


def test_a_column_is_right_within_a_quarter_of_its_deviation_or_by_its_level() -> None:
    truth = torch.tensor([1.0, 0, 1, 0, 0.5, 2])
    made = torch.tensor([[1.5, 0, 1, 0, 0.75, 2], [1.51, 1, 0, 0, 0.76, 1]])
    hits = column_hits(TABLE, made, truth.expand(2, -1))
    assert hits.tolist() == [[True, True, True, True], [False, False, False, False]]


def test_the_distance_is_that_of_standardised_columns() -> None:
    generator = torch.Generator().manual_seed(0)
    made, others = torch.rand(3, 6, generator=generator), torch.rand(4, 6, generator=generator)
    others[:, 5] = torch.tensor([0.0, 1.0, 1.0, 2.0])
    made[:, 5] = torch.tensor([1.0, 1.2, 0.0])
    a, b = made.double().numpy()[:, None], others.double().numpy()[None]
    wanted = ((a - b)[..., 0] / 2) ** 2 + 0.5 * ((a - b)[..., 1:4] ** 2).sum(-1)
    wanted = (wanted + (a - b)[..., 4] ** 2 + (a[..., 5].round() != b[..., 5])) / 4
    np.testing.assert_allclose(column_distance(TABLE, made, others).numpy(), wanted)


def test_a_category_stays_on_its_simplex_while_it_is_searched() -> None:
    unit = torch.tensor([[0.3, 0.5, 0.5, 0.5, 0.1, 0.0], [0.3, 0.9, 0.1, 0.5, 0.1, 0.0]])
    found = relaxed(TABLE, unit, 7 * unit)
    torch.testing.assert_close(found[:, [0, 4, 5]], 7 * unit[:, [0, 4, 5]])
    torch.testing.assert_close(found[:, 1:4].sum(1), torch.ones(2))
    torch.testing.assert_close(found[0, 1:4], torch.full((3,), 1 / 3))
    torch.testing.assert_close(found[1, 1:4], torch.softmax(10 * unit[1, 1:4], 0))


def test_what_is_left_open_is_read_from_the_data() -> None:
    data = torch.tensor([[1.0, 0, 1, 4.0], [3.0, 1, 0, 4.0]])
    a, b, c = read_columns(
        (Column("a"), Column("b", "category", ("n", "y")), Column("c", low=0.0)), data
    )
    assert (a.mean, a.deviation, a.low, a.high) == (2.0, 1.0, 1.0, 3.0)
    assert (b.deviation, b.ends) == (None, (0.0, 1.0))
    assert (c.deviation, c.low, c.high) == (1.0, 0.0, 4.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Column("a", "money"),  # type: ignore[arg-type]
            "a number, an integer, a category or a code, got 'money'",
        ),
        (lambda: Column("a", "category"), "is a category, which has levels"),
        (lambda: Column("a", "number", ("x",)), "has no levels"),
        (lambda: Column("a", unit=0.0), "a positive unit"),
        (lambda: Column("a", deviation=-1.0), "a positive deviation, got -1.0"),
        (
            lambda: read_columns((Column("a", "category", ("x", "y")),), torch.tensor([[1.0, 1]])),
            "exactly one of entries 0 .. 1",
        ),
        (
            lambda: read_columns((Column("a", "code", ("x", "y")),), torch.tensor([[2.0]])),
            "numbers of 2 levels",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make()
