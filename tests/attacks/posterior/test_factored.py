"""Factors against the updates written out: the same table, or no factors at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.factored import factored_table, factors, linear_layers
from trilemma.attacks.posterior.inner_products import tabulate
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.learning import LocalTraining, Task

B, P, N = 2, 9, 4


class Tied(nn.Module):
    """Uses one layer's weight a second time, where no hook sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(torch.tanh(self.first(x)) @ self.first.weight)
        return made


class Twice(Tied):
    """Calls one layer twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(torch.tanh(self.first(torch.tanh(self.first(x)))))
        return made


def mlp(bias: bool = True) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5, bias=bias), nn.Tanh(), nn.Linear(5, 3))


def task_of(model: nn.Module, classes: int | None = 3) -> Task:
    return Task(model.double(), mse_loss if classes is None else cross_entropy, classes)


def batch(count: int, seed: int, *, shared: bool = False, classes: int | None = 3) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    lead = (count,) if shared else (B, count)
    inputs = torch.randn(*lead, 6, generator=draw, dtype=torch.float64)
    if classes is None:
        return Batch(inputs, torch.randn(*lead, 3, generator=draw, dtype=torch.float64), shared)
    return Batch(inputs, torch.randint(classes, lead, generator=draw), shared)


def weights_of(task: Task) -> torch.Tensor:
    draw = torch.Generator().manual_seed(7)
    return torch.randn(B, task.layout.size, generator=draw, dtype=torch.float64) / 2


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("classes", [3, None])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_table_is_that_of_the_updates(
    clip: float | None, classes: int | None, shared: bool, bias: bool
) -> None:
    torch.manual_seed(0)
    task, training = task_of(mlp(bias), classes), LocalTraining(batch=2, record_clip=clip)
    at = weights_of(task)
    population = batch(P, 1, shared=shared, classes=classes)
    candidate_set = batch(N, 2, classes=classes)
    layers = linear_layers(task, at, population, training)
    assert layers == ("0", "2")
    written = [contributions(task, [at], value, training) for value in (population, candidate_set)]
    made = [factors(task, layers, at, value, training) for value in (population, candidate_set)]
    mean = written[0].mean(1)
    assert torch.allclose(made[0].mean(), mean)
    anchors = torch.stack([at, mean], 1)
    known = torch.full((B,), float(task.layout.size), dtype=torch.float64)
    rows, guesses = (item - mean[:, None] for item in written)
    expected = tabulate(
        (lambda a, b: rows[:, a:b], P), (lambda a, b: guesses[:, a:b], N), anchors, known
    )
    found = factored_table(made[0], made[1], mean, anchors, known)
    for name in vars(expected):
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-12), name


@pytest.mark.parametrize(
    "model",
    [
        Tied(),
        Twice(),
        nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 3)),
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)),
        nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 4), nn.Flatten(), nn.Linear(8, 3)),
    ],
    ids=["tied", "twice", "normed", "convolution", "several vectors a record"],
)
def test_other_models_have_no_factors(model: nn.Module) -> None:
    task = task_of(model)
    assert linear_layers(task, weights_of(task), batch(P, 1), LocalTraining(batch=2)) is None


def test_tokens_reach_a_frozen_embedding_as_tokens() -> None:
    model = nn.Sequential(nn.Embedding(7, 2), nn.Flatten(), nn.Linear(12, 3))
    model[0].requires_grad_(False)
    task = task_of(model)
    tokens = torch.randint(7, (B, P, 6), generator=torch.Generator().manual_seed(3))
    population = Batch(tokens, batch(P, 1).labels, False)
    at = weights_of(task)
    layers = linear_layers(task, at, population, LocalTraining(batch=2))
    assert layers == ("2",)
    made = factors(task, layers, at, population, LocalTraining(batch=2))
    rows = contributions(task, [at], population, LocalTraining(batch=2))
    assert torch.allclose(made.products(made), rows @ rows.transpose(1, 2))


def test_several_local_steps_have_none() -> None:
    task, training = task_of(mlp()), LocalTraining("fedavg", batch=2, steps=2)
    assert linear_layers(task, weights_of(task), batch(P, 1), training) is None


def test_an_update_that_is_not_finite_is_cut_to_nothing() -> None:
    task, training = task_of(mlp()), LocalTraining(batch=2, record_clip=0.5)
    population = batch(P, 1)
    population.inputs[0, 3] = torch.inf
    made = factors(task, ("0", "2"), weights_of(task), population, training)
    assert torch.isfinite(made.mean()).all()
    assert float(made.squares()[0, 3]) == 0


def test_hooks_are_gone_afterwards() -> None:
    task = task_of(mlp())
    factors(task, ("0", "2"), weights_of(task), batch(P, 1), LocalTraining(batch=2))
    assert not any(module._forward_hooks for module in task.model.modules())
