"""Records from any sized dataset of pairs, or one sentence on what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from trilemma.errors import InvalidInput
from trilemma.records.records import Records

INPUTS, LABELS = torch.rand(4, 2), torch.tensor([0, 1, 2, 0])


def test_a_tensor_dataset_and_a_list_of_pairs_are_the_same() -> None:
    one = Records.of(TensorDataset(INPUTS, LABELS), "mine")
    other = Records.of(list(zip(INPUTS, LABELS, strict=True)), "mine")
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.labels, other.labels)
    assert one.labels.dtype == torch.long
    assert len(one) == 4
    assert Records.of(one, "mine") is one


def test_rows_and_kinds_of_numbers() -> None:
    made = Records.of(TensorDataset(INPUTS.double(), LABELS.to(torch.int16)), "mine")
    assert made.inputs.dtype == torch.get_default_dtype()
    some = made[torch.tensor([2, 0])]
    assert torch.equal(some.labels, torch.tensor([2, 0]))
    assert torch.equal(some.to("cpu").inputs, made.inputs[[2, 0]])
    targets = Records.of(TensorDataset(INPUTS, torch.rand(4, 3)), "mine")
    assert targets.labels.shape == (4, 3)


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ([], "mine has no records; leave it out"),
        (7, "mine must be a sized dataset"),
        ([(torch.rand(2), 0), (torch.rand(3), 0)], "of one shape"),
        ([(torch.ones(2, dtype=torch.uint8), 0)], "convert them to float"),
        (DataLoader(TensorDataset(INPUTS)), r"DataLoader, .*give its records, loader.dataset"),
        ([torch.rand(4, 2), torch.zeros(4)], r"two arrays; give them as a pair, \(inputs, labels"),
        (([[1.0], [2.0], [3.0]], [0, 1, 0]), r"two lists of numbers; make arrays of them"),
        ((torch.rand(4), torch.zeros(4)), r"shape \(4,\): one number a record.*reshape\(-1, 1\)"),
        ([(torch.tensor([1.0, float("nan")]), 0)], "inputs of mine contain NaN"),
    ],
)
def test_what_is_no_dataset_is_one_sentence(dataset: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Records.of(dataset, "mine")


def test_copies_are_equal_in_input_and_label() -> None:
    inputs = torch.tensor([[1.0], [1.0], [1.0], [2.0]])
    kinds = Records(inputs, torch.tensor([0, 1, 0, 0])).kinds()
    assert kinds[0] == kinds[2]
    assert len(set(kinds.tolist())) == 3
