"""The attacks that need no knowledge run on every kind of net, under every kind of protection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import get
from trilemma.learning import LocalTraining, Task

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
