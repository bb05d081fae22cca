"""Models that a malicious server makes up: they show records of bare sums, as was published."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks.crafted import craft, shown_rows
from trilemma.errors import InvalidInput, UnknownName
from trilemma.learning import LocalTraining, Task, client_update

SIZE, CLASSES, RECORDS = 30, 4, 10


def data(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(count, SIZE, generator=draw), torch.arange(count) % CLASSES


def task_of(activation: type[nn.Module], units: int = 64) -> Task:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(SIZE, units), activation(), nn.Linear(units, CLASSES))
    return Task(model, cross_entropy, CLASSES)


def start(task: Task) -> torch.Tensor:
    return task.layout.flatten(dict(task.model.named_parameters())).detach()


def read(task: Task, weights: torch.Tensor, clip: float | None = None) -> int:
    """How many records of one sum are shown with no entry off by more than a hundredth."""
    inputs, labels = data(RECORDS, 7)
    training = LocalTraining(batch=RECORDS, record_clip=clip)
    update = client_update(task, weights, inputs, labels, training)
    rows = shown_rows(task, weights, update)
    near = torch.cdist(rows, inputs.double(), p=float("inf")).amin(0)
    return int((near < 0.01).sum())


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Sigmoid, nn.Tanh])
def test_an_imprint_reads_half_of_the_records_of_a_bare_sum(activation: type[nn.Module]) -> None:
    task = task_of(activation)
    crafted = craft("imprint", task, start(task), data(200, 3)[0], seed=1)
    assert read(task, crafted) >= RECORDS // 2 > read(task, start(task))


def test_a_trap_reads_half_as_well() -> None:
    task = task_of(nn.ReLU)
    crafted = craft("trap", task, start(task), data(200, 3)[0], seed=1)
    assert read(task, crafted) >= RECORDS // 2


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Sigmoid])
def test_a_trapdoor_fires_for_its_record_alone(activation: type[nn.Module]) -> None:
    task = task_of(activation)
    inputs = torch.cat([data(RECORDS, 7)[0], data(100, 3)[0]])
    crafted = task.layout.unflatten(craft("trapdoors", task, start(task), inputs, seed=1))
    reached = inputs @ crafted["0.weight"].T + crafted["0.bias"]
    fires = reached[:, :RECORDS] > 0
    expected = torch.zeros_like(fires)
    expected[:RECORDS] = torch.eye(RECORDS, dtype=torch.bool)
    assert torch.equal(fires, expected)


def test_clipping_alone_stops_no_imprint_and_a_models_other_layers_stay() -> None:
    task = task_of(nn.ReLU)
    honest = start(task)
    crafted = craft("trapdoor", task, honest, data(50, 3)[0], seed=1)
    was, now = task.layout.unflatten(honest), task.layout.unflatten(crafted)
    assert torch.equal(was["0.weight"][1:], now["0.weight"][1:])
    assert torch.equal(was["2.bias"], now["2.bias"])
    imprint = craft("imprint", task, honest, data(200, 3)[0], seed=1)
    assert read(task, imprint, clip=1e-3) >= 1


def test_what_cannot_be_crafted_is_refused() -> None:
    torch.manual_seed(0)
    flat = Task(nn.Sequential(nn.Linear(SIZE, CLASSES)), cross_entropy, CLASSES)
    with pytest.raises(InvalidInput, match="hidden linear layer"):
        craft("imprint", flat, start(flat), data(20, 3)[0], seed=1)
    task = task_of(nn.ReLU)
    with pytest.raises(UnknownName, match="imprint"):
        craft("imprnt", task, start(task), data(20, 3)[0], seed=1)
