from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import IDLG, InvertingGradients, get
from trilemma.errors import UnknownName
from trilemma.learning import Task

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

    from trilemma.attacks import Attack

Maker = Callable[..., "Problems"]


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'dlg'.*analytic, dager, dlg, exact"):
        get("dlgg")
    with pytest.raises(UnknownName, match="known: history, iterations"):
        get("dlg", iteration=3)


def relu_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )


def eval_batch_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, 1, 1), nn.BatchNorm2d(6), nn.Sigmoid(), nn.Flatten(), nn.Linear(384, 10)
    ).eval()


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.encoder(x)
        return self.head(hidden.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "shape", "attack"),
    [
        (relu_cnn, (1, 8, 8), InvertingGradients(iterations=300)),
        (eval_batch_norm, (1, 8, 8), IDLG()),
        (Transformer, (8, 8), IDLG()),
        (lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), (64,), IDLG()),
    ],
    ids=["relu-cnn", "batch-norm-eval", "transformer", "relu-mlp"],
)
def test_many_kinds_of_models_are_recovered(
    problems: Maker, model: Callable[[], nn.Module], shape: tuple[int, ...], attack: Attack
) -> None:
    torch.manual_seed(0)
    task = Task(model(), cross_entropy, 10)
    made = problems(8, task=task, shape=shape, dtype=torch.float32, warm_up=0)
    found = attack(made.views, restarts=2, seed=0)
    assert made.recovered(found.inputs) >= 6
