from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy

from trilemma.learning import BatchNormContext, Task
from trilemma.learning.modules import fitted


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pictures() -> nn.Module:
    layers = (nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 2), nn.BatchNorm2d(2, affine=False))
    return nn.Sequential(nn.Conv2d(1, 3, 2), *layers, nn.Flatten(), nn.Linear(8, 3))


def columns() -> nn.Module:
    twice = nn.BatchNorm1d(5)  # the same module reads two things
    layers = (nn.Linear(16, 5), twice, nn.Tanh(), nn.Linear(5, 5), twice)
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(5, 3))


class Lit(nn.BatchNorm2d):
    """Normalises and more, as such layers are written."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(super().forward(input=x))


def lit() -> nn.Module:
    layers = (Lit(3), nn.Conv2d(3, 2, 2), nn.BatchNorm2d(2).eval(), nn.Flatten())
    return nn.Sequential(nn.Conv2d(1, 3, 2), *layers, nn.Linear(8, 3))


def task_of(model: nn.Module, sent_at: float | None = None) -> Task:
    return Task(fitted(model.double(), sent_at)[0], cross_entropy, 3)


def parts(
    task: Task, weights: torch.Tensor, people: torch.Tensor, labels: torch.Tensor, size: int
) -> torch.Tensor:
    """Each record's part [U, n, m] of a batch's update, the records in their own company."""
    named = vmap(task.layout.unflatten)(weights)
    context = BatchNormContext.of(task, named, people, labels, size, shared=True)

    def loss(at: torch.Tensor, met: object, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return context.loss(task, task.layout.unflatten(at), met, x, y)  # type: ignore[arg-type]

    each = vmap(vmap(grad(loss), (None, None, 0, 0)), (0, 0, None, None))
    made: torch.Tensor = each(weights, context.met, people, labels)
    return made


@pytest.mark.parametrize(
    ("model", "sent_at"),
    [(pictures, None), (columns, None), (lit, None), (pictures, 0.2), (columns, 0.2)],
)
def test_parts_in_a_large_batch_add_up_to_its_gradient(
    model: type[nn.Module], sent_at: float | None
) -> None:
    """Statistics are means over records, and so are gradients by them: nothing is lost."""
    task = task_of(model(), sent_at)
    weights, people = drawn(2, task.layout.size), drawn(12, 1, 4, 4, seed=1)
    labels = torch.arange(12) % 3
    whole = torch.stack([grad(task.mean_loss)(weight, people, labels) for weight in weights])
    made = parts(task, weights, people, labels, 10**9).mean(1)
    if task.statistics is not None:  # torch counts a place less, which matters for twelve records
        told = torch.stack([statistics(task, weight, people) for weight in weights])
        whole = torch.where(task.statistics > 0, told, whole)
    assert torch.allclose(made, whole, rtol=1e-6, atol=1e-7)


def statistics(task: Task, weights: torch.Tensor, people: torch.Tensor) -> torch.Tensor:
    """What is sent of running statistics [m] if all places count."""
    assert task.statistics is not None
    named = task.layout.unflatten(weights)
    sums = {name: torch.zeros_like(value) for name, value in named.items()}

    def noted(norm: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
        def note(_: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            over = [0, *range(2, args[0].ndim)]
            variance = args[0].var(over, unbiased=False)
            for kept, seen in (("running_mean", args[0].mean(over)), ("running_var", variance)):
                sums[f"{norm}.{kept}"] += named[f"{norm}.{kept}"] - seen

        return note

    hooks = [
        item.register_forward_pre_hook(noted(name))
        for name, item in task.model.named_modules()
        if isinstance(item, nn.BatchNorm1d | nn.BatchNorm2d)
    ]
    with torch.no_grad():
        task.run(named, people)
    for hook in hooks:
        hook.remove()
    return task.statistics * task.layout.flatten(sums)


@pytest.mark.parametrize("size", [2, 5])
def test_a_record_among_its_copies_is_what_they_send(size: int) -> None:
    task = task_of(pictures(), 0.5)
    weights, record = drawn(1, task.layout.size), drawn(1, 1, 4, 4, seed=2)
    copies, labels = record.expand(size, 1, 4, 4), torch.ones(size, dtype=torch.long)
    sent = grad(task.mean_loss)(weights[0], copies, labels)
    made = parts(task, weights, copies, labels, size)[0]
    assert torch.allclose(made, sent.expand(size, -1))


def test_a_batch_of_one_record_is_normalised_alone() -> None:
    task = task_of(pictures())
    weights, people = drawn(1, task.layout.size), drawn(4, 1, 4, 4, seed=3)
    labels = torch.arange(4) % 3
    alone = [grad(task.mean_loss)(weights[0], people[[i]], labels[[i]]) for i in range(4)]
    assert torch.allclose(parts(task, weights, people, labels, 1)[0], torch.stack(alone))


def test_the_model_is_left_as_it_was() -> None:
    task = task_of(pictures())
    people, labels = drawn(4, 1, 4, 4), torch.arange(4) % 3
    named = vmap(task.layout.unflatten)(drawn(1, task.layout.size))
    before = task.model(people)
    with pytest.raises(RuntimeError):
        BatchNormContext.of(task, named, people[..., 0], labels, 4, shared=True)
    BatchNormContext.of(task, named, people, labels, 4, shared=True)
    assert torch.equal(task.model(people), before)
