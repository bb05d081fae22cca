"""Attacks run on every kind of net, under every kind of protection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import Knowledge, get
from trilemma.attacks.posterior import rest_distribution
from trilemma.learning import LocalTraining, Task
from trilemma.records.records import Records

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 5, stride=2, padding=2), nn.Sigmoid()),
        *(nn.Conv2d(4, 4, 5, padding=2), nn.Sigmoid()),
        *(nn.Flatten(), nn.Linear(64, 10)),
    )


def relu_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )


@pytest.mark.parametrize("model", [lenet, relu_cnn])
@pytest.mark.parametrize(
    "setting",
    [{"keep": 0.5}, {"clients": 2, "variance": 1e-3}],
    ids=["mask", "noisy-sum"],
)
@pytest.mark.parametrize("name", ["idlg", "inverting-gradients"])
def test_longer_attacks_explain_more(
    problems: Maker, model: Callable[[], nn.Module], setting: dict[str, Any], name: str
) -> None:
    task = Task(model(), cross_entropy, 10)
    training = LocalTraining(batch=2)
    made = problems(2, task=task, shape=(1, 8, 8), training=training, **setting)
    further = {"masked_iterations": 0} if name == "idlg" else {}
    short, long = (
        get(name, iterations=iterations, **further)(made.views, restarts=1, seed=0)
        for iterations in (2, 40)
    )
    assert tuple(long.inputs.shape) == (2, 2 * setting.get("clients", 1), 1, 8, 8)
    assert ((long.inputs >= 0) & (long.inputs <= 1)).all()
    assert not long.failed.any()
    # an L-BFGS step of one unit may end at once at the edge of a ReLU net's linear piece
    assert (long.loss <= short.loss).all()
    assert long.loss.sum() < short.loss.sum()


class Buffered(nn.Module):
    """A matrix that is no parameter."""

    matrix: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.eye(64))
        self.last = nn.Linear(64, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(inputs @ self.matrix)
        return made


def frozen() -> nn.Module:
    net = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    net[0].requires_grad_(False)
    return net


def normalised() -> nn.Module:
    layers = (nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))
    return nn.Sequential(*layers).eval()


@pytest.mark.parametrize("model", [Buffered, frozen, normalised])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
def test_nets_that_hold_more_than_is_trained(
    problems: Maker,
    monkeypatch: pytest.MonkeyPatch,
    model: Callable[[], nn.Module],
    dtype: torch.dtype,
) -> None:
    """Buffers and frozen layers go along where an attack computes in another precision."""
    monkeypatch.setattr(
        rest_distribution, "_ROUNDED", 0.0
    )  # the posterior is done again in double
    task = Task(model().to(dtype), cross_entropy, 10)
    made = problems(1, task=task, training=LocalTraining(batch=2), public=30, dtype=torch.float32)
    public = made.views[0].knowledge.public
    assert public is not None
    candidate_set = Records(made.inputs[0].repeat(2, 1), made.labels[0].repeat(2))
    views = [replace(view, knowledge=Knowledge(public, candidate_set)) for view in made.views]
    for name in ("idlg", "map", "linkage", "gaussian-posterior"):
        found = get(name)(views, restarts=1, seed=0)
        assert not found.failed.any(), name
        assert torch.isfinite(found.loss).all(), name
