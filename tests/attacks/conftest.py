"""Small units with known truth, shared by the tests of this room."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import Knowledge, View
from trilemma.entropy import Seeded
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Noise, Observation
from trilemma.records.range import InputSpec
from trilemma.records.records import Records

torch.set_num_threads(1)


@dataclass(frozen=True, eq=False)
class Problems:
    views: list[View]
    inputs: torch.Tensor
    labels: torch.Tensor

    def psnr(self, found: torch.Tensor) -> torch.Tensor:
        """PSNR [N, S] of each record under the best assignment."""
        units, records = found.shape[:2]
        result = torch.zeros(units, records)
        for unit in range(units):
            error = torch.cdist(found[unit].flatten(1), self.inputs[unit].flatten(1)) ** 2
            score = -10 * torch.log10(error / found[unit, 0].numel() + 1e-12)
            rows, columns = linear_sum_assignment(-score.numpy())
            result[unit, columns] = score[rows, columns].float()
        return result

    def recovered(self, found: torch.Tensor, threshold: float = 20.0) -> int:
        return int((self.psnr(found) > threshold).sum())


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    data, labels = load_digits(return_X_y=True)
    return torch.tensor(data / 16), torch.tensor(labels)


def mlp(activation: Callable[[], nn.Module] = nn.Sigmoid) -> Task:
    model = nn.Sequential(nn.Linear(64, 32), activation(), nn.Linear(32, 10))
    return Task(model, cross_entropy, 10)


def make_problems(
    count: int,
    *,
    task: Task | None = None,
    shape: tuple[int, ...] = (64,),
    training: LocalTraining | None = None,
    variance: float = 0.0,
    keep: float | None = None,
    own_places: bool = False,
    clients: int = 1,
    clip: float | None = None,
    dtype: torch.dtype = torch.float64,
    weights_of: tuple[float, ...] | None = None,
    public: int = 0,
    warm_up: int = 20,
    seed: int = 0,
) -> Problems:
    """Fresh (model, data, draw) units: U(-.5, .5) weights after `warm_up` SGD steps.

    The first `public` digits are the attacker's, and never behind an update.
    """
    task = task or mlp()
    training = training or LocalTraining()
    data, labels = digits()
    data = data.reshape(-1, *shape).to(dtype)
    spec = InputSpec(shape, 0.0, 1.0)
    size = training.unit_size
    knowledge = Knowledge(public=Records(data[:public], labels[:public]) if public else None)
    data, labels = data[public:], labels[public:]
    views, xs, ys = [], [], []
    for unit in range(count):
        source = Seeded(seed).torch_generator("problem", unit)
        weights = torch.rand(task.layout.size, generator=source, dtype=torch.float64) - 0.5
        weights = weights.to(dtype)
        for _ in range(warm_up):
            rows = torch.randint(0, len(data), (32,), generator=source)
            step = client_update(task, weights, data[rows], labels[rows], LocalTraining(batch=32))
            weights = weights - 0.1 * step
        rows = torch.randperm(len(data), generator=source)[: clients * size]
        total = torch.zeros_like(weights)
        shares = torch.tensor(weights_of or [1 / clients] * clients, dtype=dtype)
        shares = shares[:, None].expand(clients, len(total))
        if own_places and keep is not None:
            shares = shares * (torch.rand(shares.shape, generator=source) < keep)
        for client in range(clients):
            own = rows[client * size : (client + 1) * size]
            update = client_update(task, weights, data[own], labels[own], training)
            if clip is not None:
                update = update * min(1.0, clip / float(update.norm()))
            total += shares[client] * update
        noise, known = None, None
        if variance:
            draw = torch.randn(len(total), generator=source, dtype=torch.float64)
            total = total + math.sqrt(variance) * draw.to(dtype)
            noise = Noise("gaussian", math.sqrt(variance))
        if own_places:
            known = shares.ne(0).any(0)
        elif keep is not None:
            known = torch.rand(len(total), generator=source) < keep
            total = torch.where(known, total, 0.0)
        sent = shares if own_places else weights_of
        observation = Observation(total, known, noise, sent, clip, clients)
        views.append(View(task, weights, observation, training, spec, knowledge))
        xs.append(data[rows])
        ys.append(labels[rows])
    return Problems(views, torch.stack(xs), torch.stack(ys))


@pytest.fixture(scope="session")
def problems() -> Callable[..., Problems]:
    """A maker of units with known truth."""
    return make_problems
