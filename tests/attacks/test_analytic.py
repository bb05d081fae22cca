"""The analytic attack: exact where it applies, and it says where it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from tests.attacks.mixed_table import generated, right_columns, views_of
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import Analytic, get
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation
from trilemma.scenarios.medical_tables import breast_cancer

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

    from trilemma.game.scenario import Scenario


Maker = Callable[..., "Problems"]


def test_analytic_divides_only_what_the_same_clients_sent(problems: Maker) -> None:
    """Neurons 0-7: client 0; 8-15: client 1; the others: weights of one, bias of the other."""
    made = problems(4, clients=2)
    shares = torch.zeros(2, 2410, dtype=torch.float64)
    weight, bias = (shares[:, :2048].view(2, 32, 64), shares[:, 2048:2080])
    weight[0, :8] = weight[1, 8:16] = weight[0, 16:] = 0.5
    bias[0, :8] = bias[1, 8:16] = bias[1, 16:] = 0.5
    views = []
    for view, xs, ys in zip(made.views, made.inputs, made.labels, strict=True):
        sent = [
            client_update(view.task, view.weights, x[None], y[None], LocalTraining())
            for x, y in zip(xs, ys, strict=True)
        ]
        update = (shares * torch.stack(sent)).sum(0)
        seen = Observation(update, shares.ne(0).any(0), weights=shares, clients=2)
        views.append(dataclasses.replace(view, observation=seen))
    found = get("analytic")(views, restarts=1, seed=0)
    assert made.recovered(found.inputs, 100) == 8


def test_analytic_is_exact_and_says_when_it_does_not_apply(problems: Maker) -> None:
    made = problems(10)
    found = get("analytic")(made.views, restarts=1, seed=0)
    assert torch.allclose(found.inputs, made.inputs, atol=1e-9)
    convolution = Task(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10)), cross_entropy, 10
    )
    other = problems(1, task=convolution, shape=(1, 8, 8), warm_up=0)
    with pytest.raises(InvalidInput, match="starts with a trained linear layer"):
        get("analytic")(other.views, restarts=1, seed=0)


@pytest.mark.parametrize("make", [breast_cancer, generated])
def test_neurons_at_rest_tell_the_records_of_a_batch_apart(make: Callable[[], Scenario]) -> None:
    """Whole batches of tables, unprotected: most records to the last digit."""
    scenario = make()
    views, truth = views_of(scenario, 12)
    found = Analytic()(views, restarts=1, seed=0)
    assert right_columns(scenario, found.inputs, truth) > 0.8
    near = (found.inputs[:, :, None] - truth[:, None]).abs().amax(3).amin(1)
    assert float((near < 0.01).double().mean()) > 0.6


def test_a_sum_of_many_records_and_noise_fall_back_on_single_neurons() -> None:
    scenario = breast_cancer()
    for protection in ("randomization:variance=1e-6", "secret-sharing:clip_range=1"):
        views, _ = views_of(scenario, 2, protection)
        found = Analytic()(views, restarts=1, seed=0)
        assert not bool(found.failed.any())
        assert bool(torch.isfinite(found.inputs).all())
