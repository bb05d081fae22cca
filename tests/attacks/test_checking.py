from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, l1_loss

from trilemma.attacks import check_task
from trilemma.errors import InvalidInput
from trilemma.learning import Task
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


class Gates(nn.Module):
    """An LSTM of two linear layers, as an error tells people to write it."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(1, 20), nn.Linear(5, 20, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = kept = torch.zeros_like(x)
        for place in range(x.shape[1]):
            i, f, g, o = (self.x(x[:, place, None]) + self.h(state)).chunk(4, 1)
            kept = f.sigmoid() * kept + i.sigmoid() * g.tanh()
            state = o.sigmoid() * kept.tanh()
        return state


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_cells_in_a_loop_run_where_their_layer_does_not() -> None:
    for cells in (Cells(), Gates()):
        check_task(task(cells), SPEC, INPUTS, LABELS)


@pytest.mark.parametrize(
    ("middle", "sentence"),
    [
        (nn.BatchNorm1d(5), r"BatchNorm '1' is in train mode.*call model.eval\(\)"),
        (nn.Dropout(0.5), r"cannot run the model.*call model.eval\(\)"),
        (Counter(), r"cannot run the model.*in-place"),
        (Branch(), r"cannot run the model.*branches"),
        (Recurrent(nn.GRU(1, 5, batch_first=True)), r"cannot run the model.*torch.nn.GRUCell"),
        (Recurrent(nn.RNN(1, 5, batch_first=True)), r"cannot run the model.*torch.nn.GRUCell"),
        (Recurrent(nn.LSTM(1, 5, batch_first=True)), r"torch.nn.LSTM as a loop.*two linear"),
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
