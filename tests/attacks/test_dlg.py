"""Matching by L-BFGS: noise, missing coordinates, sums, clips and local steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from trilemma.attacks import View, get
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems


Maker = Callable[..., "Problems"]


@pytest.mark.parametrize(("name", "least"), [("dlg", 56), ("idlg", 58)])
def test_unprotected_digits_are_recovered(problems: Maker, name: str, least: int) -> None:
    made = problems(60, dtype=torch.float32)
    found = get(name)(made.views, restarts=1, seed=1)
    assert made.recovered(found.inputs) >= least
    assert found.labels is not None
    assert int((found.labels == made.labels).sum()) >= least
    assert not found.failed.any()


def test_noise_in_the_middle_of_the_curve(problems: Maker) -> None:
    made = problems(60, variance=2e-3)
    found = get("dlg")(made.views, restarts=1, seed=1)
    assert 18 <= made.recovered(found.inputs) <= 48  # reference .567


def test_masked_digits_need_only_known_coordinates(problems: Maker) -> None:
    made = problems(15, keep=0.2)
    found = get("dlg", iterations=600)(made.views, restarts=1, seed=1)
    assert made.recovered(found.inputs) >= 12


def test_the_best_restart_goes_on_where_coordinates_are_missing(problems: Maker) -> None:
    masked, whole = problems(4, keep=0.05), problems(4, variance=1e-2)
    hasty, patient = get("dlg", iterations=40, masked_iterations=0), get("dlg", iterations=40)
    before, after = (value(masked.views, restarts=2, seed=1) for value in (hasty, patient))
    assert (after.loss < before.loss).all()
    before, after = (value(whole.views, restarts=2, seed=1) for value in (hasty, patient))
    assert torch.equal(after.inputs, before.inputs)


def test_sums_of_clients_are_attacked_as_one_batch(problems: Maker) -> None:
    made = problems(8, clients=2)
    found = get("idlg")(made.views, restarts=2, seed=1)
    assert tuple(found.inputs.shape) == (8, 2, 64)
    assert made.recovered(found.inputs) >= 14


@pytest.mark.slow
def test_sums_of_own_places_are_taken_apart_by_who_sent_what(problems: Maker) -> None:
    """At ρ = .1 most coordinates hold one client; read as sums of both they explain nothing."""
    made = problems(5, clients=2, keep=0.1, own_places=True)
    attack = get("dlg")
    assert made.recovered(attack(made.views, restarts=1, seed=1).inputs) >= 9
    naive = [
        dataclasses.replace(v, observation=dataclasses.replace(v.observation, weights=None))
        for v in made.views
    ]
    assert made.recovered(attack(naive, restarts=1, seed=1).inputs) == 0


def test_clipped_sums_are_matched_with_the_clip(problems: Maker) -> None:
    made = problems(8, clients=2, clip=0.5)
    found = get("dlg")(made.views, restarts=2, seed=1)
    assert made.recovered(found.inputs) >= 13


@pytest.mark.slow
def test_unrolled_local_steps_beat_the_one_gradient_reading(problems: Maker) -> None:
    training = LocalTraining("fedavg", lr=0.5, steps=5, batch=2)
    made = problems(8, training=training)
    as_gradient = [
        dataclasses.replace(
            view,
            local_training=LocalTraining(batch=2),
            observation=Observation(view.observation.update / (training.lr * training.steps)),
        )
        for view in made.views
    ]
    attack = get("dlg")
    unrolled = made.recovered(attack(made.views, restarts=2, seed=1).inputs)
    naive = made.recovered(attack(as_gradient, restarts=2, seed=1).inputs)
    assert unrolled >= 13
    assert naive <= unrolled - 5


def test_regression_recovers_inputs_and_targets() -> None:
    task = Task(nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 1)), mse_loss, None)
    generator = torch.Generator().manual_seed(0)
    spec = InputSpec((12,), -1.0, 1.0)
    training = LocalTraining(batch=1)
    views, inputs, targets = [], [], []
    for _ in range(10):
        weights = torch.rand(task.layout.size, generator=generator, dtype=torch.float64) - 0.5
        x = 2 * torch.rand(1, 12, generator=generator, dtype=torch.float64) - 1
        y = torch.randn(1, 1, generator=generator, dtype=torch.float64)
        update = client_update(task, weights, x, y, training)
        views.append(View(task, weights, Observation(update), training, spec))
        inputs.append(x)
        targets.append(y)
    found = get("dlg")(views, restarts=3, seed=0)
    close = ((found.inputs - torch.stack(inputs)) ** 2).mean((1, 2)) < 1e-3
    assert int(close.sum()) >= 8
    assert found.labels is not None
    assert (found.labels - torch.stack(targets))[close].abs().max() < 0.05
