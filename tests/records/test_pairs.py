"""Pairs of tensors, arrays and frames become the same records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.records.records import Records

INPUTS = np.random.default_rng(0).normal(size=(5, 3))
LABELS = np.array([0, 1, 1, 0, 1])


def given(kind: str) -> tuple[Any, Any]:
    if kind == "tensors":
        return torch.tensor(INPUTS, dtype=torch.float32), torch.tensor(LABELS)
    if kind == "arrays":
        return INPUTS, LABELS
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    frame = pandas.DataFrame(INPUTS, columns=["age", "dose", "weight"])
    labels = pandas.Series(LABELS)
    return frame, labels if kind == "series" else labels.to_frame("ill")


@pytest.mark.parametrize("kind", ["tensors", "arrays", "series", "frames"])
def test_all_kinds_give_the_same_records(kind: str) -> None:
    records = Records.of(given(kind), "client 0")
    expected = [(torch.tensor(x).float(), torch.tensor(y)) for x, y in zip(INPUTS, LABELS)]  # noqa: B905
    oracle = Records.of(expected, "client 0")
    assert torch.equal(records.inputs, oracle.inputs)
    assert torch.equal(records.labels, oracle.labels)


def test_two_records_are_no_pair_of_arrays() -> None:
    assert len(Records.of([(torch.rand(3), 0), (torch.rand(3), 1)], "client 0")) == 2


def test_targets_of_one_column_stay_a_column() -> None:
    assert Records.of((INPUTS, INPUTS[:, :1]), "client 0").labels.shape == (5, 1)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((INPUTS, LABELS[:4]), r"shapes \(5, 3\) and \(4,\)"),
        ((INPUTS[0], LABELS[:3]), r"shape \(3,\): one number a record.*reshape\(-1, 1\)"),
        ((INPUTS[:0], LABELS[:0]), "client 0 has no records; leave it out"),
        ((INPUTS.astype(str), LABELS), "values of the kind <U32, but numbers"),
        ((np.full((5, 3), np.nan), LABELS), "NaN or infinity"),
    ],
)
def test_bad_pairs_are_one_sentence(data: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Records.of(data, "client 0")


def test_a_frame_names_the_column_that_holds_texts() -> None:
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    frame = pandas.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})
    with pytest.raises(InvalidInput, match="'f' in column 'sex', but numbers"):
        Records.of((frame, pandas.Series([0, 1])), "client 0")
