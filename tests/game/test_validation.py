"""What people give to a scenario by mistake, and what they are told to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.game.made_scenario import dataset, make
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from trilemma.errors import InvalidInput


class Autocast(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(inputs).float()


def words(most: int) -> dict[str, Any]:
    """Texts whose largest token is in the last client's last record."""
    tokens, labels = torch.arange(24).reshape(8, 3) % 5, torch.arange(8) % 3
    last = tokens.clone()
    last[-1, -1] = most
    return {"clients": [(tokens, labels), (last, labels)], "test": (tokens, labels)}


def reader(first: nn.Module) -> nn.Module:
    return nn.Sequential(first, nn.Flatten(), nn.LazyLinear(3))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "class of a model": ({"model": nn.Sequential}, r"call it, model=Sequential\(...\)"),
    "no model": ({"model": "mine.pt"}, "must be a torch.nn.Module, got 'mine.pt'"),
    "name of a loss": (
        {"loss": "cross_entropy"},
        "the function itself, torch.nn.functional.cross_entropy",
    ),
    "class of a loss": ({"loss": nn.CrossEntropyLoss}, r"call it, loss=CrossEntropyLoss\(\)"),
    "loss of each": (
        {"loss": nn.CrossEntropyLoss(reduction="none")},
        r"has shape \(4,\), but must be one number.*reduction='none'",
    ),
    "sum": ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "must be their mean; leave out"),
    "sum by hand": (
        {"loss": lambda outputs, labels: cross_entropy(outputs, labels, reduction="sum")},
        "must be their mean; leave out",
    ),
    "plain number": (
        {"loss": lambda outputs, labels: cross_entropy(outputs, labels).item()},
        "must return a tensor, got .*leave out .item",
    ),
    "text for a number": ({"rounds": "60"}, "whole number, got '60'; write it without quotation"),
    "text for a cohort": ({"cohort": "2"}, "cohort must be a whole number, got '2'"),
    "half": ({"model": nn.Linear(5, 3).half()}, r"float16 parameters.*call model.float\(\)"),
    "double": ({"model": nn.Linear(5, 3).double()}, r"float64 parameters.*call model.float\(\)"),
    "autocast": ({"model": Autocast(5, 3)}, r"computes in bfloat16 \(torch.autocast.*leave that"),
    "one score": (
        {"model": nn.Linear(5, 1), "loss": binary_cross_entropy_with_logits},
        r"return 2 scores for cross_entropy, or .* as float of shape \[n, 1\]",
    ),
    "bag": (
        {"model": reader(nn.EmbeddingBag(5, 2)), **words(4)},
        r"use torch.nn.Embedding and the mean of its rows, embedding\(tokens\).mean\(1\)",
    ),
    "token": (
        {"model": nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 3)), **words(7)},
        "hold the token 7, and the model's torch.nn.Embedding has 5 rows",
    ),
    "float labels": (
        {"clients": [(dataset().tensors[0], dataset().tensors[1].float())]},
        r"labels that are floats .*; give classes as whole numbers, labels.long\(\), .*\[n, 3\]",
    ),
    "no local training": (
        {"local_training": None},
        r"must be a LocalTraining, got None; write LocalTraining\(\"fedsgd\"",
    ),
    "dict of clients": ({"clients": {"a": 1}}, r"dict; give its entries, list\(clients.values"),
    "one pair": ({"clients": dataset().tensors}, r"is one pair .*\[\(inputs, labels\)\] for one"),
    "tokens as floats": (
        {"model": nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(10, 3))},
        "give tokens as int64",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_what_was_meant(case: str) -> None:
    changes, sentence = WRONG[case]
    with pytest.raises(InvalidInput, match=sentence) as raised:
        make(**changes)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


def test_means_are_taken() -> None:
    inputs = dataset().tensors[0]
    data = inputs, inputs[:, :2]
    made = make(model=nn.Linear(5, 2), loss=mse_loss, clients=[data], test=data)
    assert made.classes is None
    assert make(loss=nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 9.0]))).classes == 3
