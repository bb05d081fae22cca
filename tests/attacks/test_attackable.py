from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss

from trilemma.attacks import check_task
from trilemma.errors import InvalidInput
from trilemma.learning import Task, way_of
from trilemma.records.range import InputSpec

SPEC = InputSpec((4,), 0.0, 1.0)
INPUTS = torch.linspace(0, 1, 12).reshape(3, 4)
LABELS = torch.tensor([0, 1, 2])


def task(*middle: nn.Module) -> Task:
    torch.manual_seed(0)
    return Task(nn.Sequential(nn.Linear(4, 5), *middle, nn.Linear(5, 3)), cross_entropy, 3)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))  # type: ignore[operator]
        return x


class Spoiled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.nan


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Recurrent(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.layer(x[:, :, None])[0][:, -1]
        return last


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(1, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x)
        for place in range(x.shape[1]):
            state = self.cell(x[:, place, None], state)
        return state


def test_good_tasks_pass() -> None:
    for middle in (nn.Sigmoid(), nn.ReLU(), nn.BatchNorm1d(5).eval(), nn.GroupNorm(1, 5)):
        check_task(task(middle), SPEC, INPUTS, LABELS)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of GRUCell
@pytest.mark.parametrize(
    ("middle", "kind"),
    [
        (nn.Sigmoid(), "recorded"),
        (Cells(), "recorded"),
        (Counter(), "looped"),
        (Branch(), "looped"),
        (Recurrent(nn.GRU(1, 5, batch_first=True)), "looped"),
        (Recurrent(nn.RNN(1, 5, batch_first=True)), "looped"),
        (Recurrent(nn.LSTM(1, 5, batch_first=True)), "looped"),
    ],
)
def test_whatever_runs_in_torch_can_be_attacked(middle: nn.Module, kind: str) -> None:
    tried = task(middle)
    way = way_of(tried, INPUTS, LABELS)
    assert (way.kind, way.once) == (kind, "")
    check_task(replace(tried, way=way), SPEC, INPUTS, LABELS)


@pytest.mark.parametrize(
    ("middle", "sentence"),
    [
        (nn.BatchNorm1d(5), r"BatchNorm '1' is in train mode.*call model.eval\(\)"),
        (Spoiled(), "returns NaN"),
    ],
)
def test_models_that_cannot_run(middle: nn.Module, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_task(task(middle), SPEC, INPUTS, LABELS)


def test_bad_records() -> None:
    good = task(nn.Sigmoid())
    with pytest.raises(InvalidInput, match="labels must lie in 0 … 2, got 0 … 5"):
        check_task(good, SPEC, INPUTS, torch.tensor([0, 1, 5]))
    with pytest.raises(InvalidInput, match="outside the stated range"):
        check_task(good, SPEC, 2 * INPUTS, LABELS)
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        check_task(good, SPEC, INPUTS / 0, LABELS)
    with pytest.raises(InvalidInput, match="expected"):
        check_task(good, SPEC, INPUTS[:, :2], LABELS)
    with pytest.raises(InvalidInput, match="one score for each of the 4 classes"):
        check_task(Task(good.model, cross_entropy, 4), SPEC, INPUTS, LABELS)
    with pytest.raises(InvalidInput, match="finite range"):
        InputSpec((4,), 0.0, float("inf"))


def test_losses_without_a_second_derivative() -> None:
    bias_only = nn.Linear(4, 1)
    bias_only.weight.requires_grad_(False)
    frozen = Task(bias_only, l1_loss, None)
    with pytest.raises(InvalidInput, match="does not change with the inputs"):
        check_task(frozen, SPEC, INPUTS, torch.zeros(3, 1))
