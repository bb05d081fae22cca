"""MAP with a prior from public digits: its objective, and what it recovers where DLG does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.attacks import Knowledge, View, get
from trilemma.attacks.map_prior import bound_posterior
from trilemma.attacks.matching import ViewTensors
from trilemma.attacks.priors import Prior
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Noise, Observation
from trilemma.records.range import InputSpec
from trilemma.records.records import Records

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]
BATCH = LocalTraining(batch=4)
TWO = {"training": LocalTraining(batch=2), "clients": 2}


def test_the_objective_is_the_negative_log_posterior(problems: Maker) -> None:
    """Against the sum written out, its gradient against finite differences."""
    made = problems(2, training=LocalTraining(batch=2), keep=0.7, clients=2, clip=0.6, public=297)
    units = ViewTensors.of(made.views, "double")
    public = made.views[0].knowledge.public
    assert public is not None
    prior = Prior.of(public, units.view)
    variance = torch.tensor([1e-3, 1e-2], dtype=torch.float64)
    evaluate = bound_posterior(units, prior, made.labels, variance)(torch.arange(2))
    z = torch.randn(2, 4 * 64, generator=torch.Generator().manual_seed(0)).double()
    loss, gradient = evaluate(z)
    for unit, view in enumerate(made.views):
        rows = z[unit].reshape(4, 64)
        labels = made.labels[unit]
        x = torch.stack(
            [prior.mean[c] + prior.factor[c] @ row for c, row in zip(labels, rows, strict=True)]
        )
        sent = torch.zeros_like(view.weights)
        for client in range(2):
            own = slice(2 * client, 2 * client + 2)
            update = client_update(
                view.task, view.weights, x[own], labels[own], LocalTraining(batch=2)
            )
            sent += update * min(1.0, 0.6 / float(update.norm())) / 2
        assert view.observation.known is not None
        gap = (sent - view.observation.update)[view.observation.known]
        beyond = x.clamp(max=0).square().sum() + (x - 1).clamp(min=0).square().sum()
        expected = gap.square().sum() / (2 * variance[unit]) + 500 * beyond + z[unit] @ z[unit] / 2
        assert torch.allclose(loss[unit], expected, rtol=1e-9)
    for place in (0, 70, 255):
        step = torch.zeros_like(z)
        step[:, place] = 1e-6
        difference = (evaluate(z + step)[0] - evaluate(z - step)[0]) / 2e-6
        assert torch.allclose(difference, gradient[:, place], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("setting", "least"),
    [
        pytest.param({"training": BATCH, "variance": 1.27e-4}, 15, id="noise"),
        pytest.param({"training": BATCH, "keep": 0.08}, 20, id="mask"),
        *(
            pytest.param(*case, id=name, marks=pytest.mark.slow)
            for name, case in {
                "bare": ({"training": BATCH}, 22),
                "clip": ({"training": BATCH, "clip": 0.5, "variance": 1e-5}, 15),
                "local-steps": (
                    {"training": LocalTraining("fedavg", lr=0.5, steps=3, batch=4)},
                    19,
                ),
                "record-clip": (
                    {"training": LocalTraining(batch=4, record_clip=0.5), "variance": 1e-6},
                    19,
                ),
                "own-places": ({**TWO, "keep": 0.2, "own_places": True}, 19),
                "weighted": ({**TWO, "weights_of": (0.7, 0.3)}, 19),
            }.items()
        ),
    ],
)
def test_digits_are_recovered(problems: Maker, setting: dict[str, object], least: int) -> None:
    made = problems(6, public=297, **setting)
    found = get("map")(made.views, restarts=3, seed=1)
    assert made.recovered(found.inputs) >= least
    assert not found.failed.any()


@pytest.mark.slow
def test_what_dlg_does_not_find_under_noise_and_masks(problems: Maker) -> None:
    for setting in ({"variance": 2e-4}, {"keep": 0.06}):
        made = problems(12, training=BATCH, public=297, **setting)
        ours = made.recovered(get("map")(made.views, restarts=1, seed=1).inputs)
        blind = made.recovered(get("dlg")(made.views, restarts=1, seed=1).inputs)
        assert ours >= blind + 8


@pytest.mark.slow
def test_sums_of_ten_clients_are_taken_apart(problems: Maker) -> None:
    made = problems(12, training=BATCH, clients=10, public=297)
    found = get("map")(made.views, restarts=1, seed=1)
    assert made.recovered(found.inputs) >= 0.6 * 12 * 40


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, stride=2, padding=2), nn.Sigmoid()),
        *(nn.Conv2d(6, 6, 5, padding=2), nn.Sigmoid()),
        *(nn.Flatten(), nn.Linear(96, 10)),
    )


def relu() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@pytest.mark.slow
@pytest.mark.parametrize("model", [lenet, relu])
def test_other_nets(problems: Maker, model: Callable[[], nn.Module]) -> None:
    task = Task(model(), cross_entropy, 10)
    made = problems(4, task=task, shape=(1, 8, 8), training=LocalTraining(batch=2), public=297)
    found = get("map")(made.views, restarts=1, seed=0)
    assert tuple(found.inputs.shape) == (4, 2, 1, 8, 8)
    assert made.recovered(found.inputs) >= 6


def test_large_inputs_have_a_prior_of_low_rank() -> None:
    """Smooth images of 20 x 20, of which a mask hides so much that the prior must help."""
    task = Task(
        nn.Sequential(nn.Linear(400, 12), nn.Sigmoid(), nn.Linear(12, 3)), cross_entropy, 3
    )
    draw = torch.Generator().manual_seed(0)
    coarse = torch.rand(220, 1, 4, 4, generator=draw)
    images = nn.functional.interpolate(coarse, size=(20, 20), mode="bilinear").reshape(220, 400)
    labels = torch.arange(220) % 3
    knowledge = Knowledge(public=Records(images[20:], labels[20:]))
    views = []
    for unit in range(8):
        weights = torch.rand(task.layout.size, generator=draw) - 0.5
        own = slice(unit, unit + 1)
        update = client_update(task, weights, images[own], labels[own], LocalTraining())
        known = torch.rand(len(update), generator=draw) < 0.02
        views.append(
            View(
                task,
                weights,
                Observation(torch.where(known, update, 0.0), known),
                LocalTraining(),
                InputSpec((400,), 0.0, 1.0),
                knowledge,
            )
        )
    found = get("map")(views, restarts=1, seed=0)
    error = ((found.inputs[:, 0] - images[:8]) ** 2).mean(1)
    assert int((error < 0.01).sum()) >= 7


def test_regression_finds_inputs_and_targets_under_noise() -> None:
    """Targets follow the inputs, which follow one another: the prior knows it."""
    task = Task(nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 1)), mse_loss, None)
    draw = torch.Generator().manual_seed(0)
    mixing = torch.randn(3, 12, generator=draw).double()
    inputs = 0.3 * torch.randn(300, 3, generator=draw).double() @ mixing
    inputs = inputs.clamp(-2, 2)
    targets = inputs[:, :3].sum(1, keepdim=True)
    spec, training = InputSpec((12,), -2.0, 2.0), LocalTraining(batch=2)
    knowledge = Knowledge(public=Records(inputs[20:], targets[20:]))
    views = []
    for unit in range(10):
        weights = torch.rand(task.layout.size, generator=draw).double() - 0.5
        own = slice(2 * unit, 2 * unit + 2)
        update = client_update(task, weights, inputs[own], targets[own], training)
        update = update + 1e-3 * torch.randn(len(update), generator=draw).double()
        seen = Observation(update, noise=Noise("gaussian", 1e-3))
        views.append(View(task, weights, seen, training, spec, knowledge))
    found = get("map")(views, restarts=1, seed=0)
    assert found.labels is not None
    assert found.labels.shape == (10, 2, 1)
    truth, named = inputs[:20].reshape(10, 2, 12), targets[:20].reshape(10, 2)
    straight = (found.inputs - truth).square().sum((1, 2))
    crossed = (found.inputs.flip(1) - truth).square().sum((1, 2))
    order = torch.where((crossed < straight)[:, None], torch.tensor([1, 0]), torch.tensor([0, 1]))
    told = found.labels[..., 0].gather(1, order)
    good = torch.minimum(straight, crossed) / 24 < 0.02
    assert int(good.sum()) >= 7
    assert (told - named)[good].abs().median() < 0.15


def test_public_records_are_needed_and_shared(problems: Maker) -> None:
    bare, made = problems(2), problems(2, public=100)
    with pytest.raises(InvalidInput, match="learns from public records"):
        get("map")(bare.views, restarts=1, seed=0)
    other = dataclasses.replace(made.views[1], knowledge=problems(1, public=90).views[0].knowledge)
    with pytest.raises(InvalidInput, match="must share their public records"):
        get("map")([made.views[0], other], restarts=1, seed=0)
    with pytest.raises(InvalidInput, match="restarts must be at least 1"):
        get("map")(made.views, restarts=0, seed=0)
