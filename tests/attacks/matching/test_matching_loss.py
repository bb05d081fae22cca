from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks.matching import Candidates, ViewTensors, explained_update, squared_distance
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]


def test_gradient_of_the_matching_loss_is_autograds_double_backward(problems: Maker) -> None:
    made = problems(1, training=LocalTraining(batch=2), keep=0.5)
    view = made.views[0]
    units = ViewTensors.of(made.views, "double")
    candidates = Candidates.of(view, joint=True)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(candidates.size, generator=generator, dtype=torch.float64)
    none = torch.zeros(0, dtype=torch.long)
    ours = torch.func.grad(squared_distance(candidates, view))(
        z, units.weights[0], units.update[0], units.known[0], units.client_weights[0], none
    )

    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10)).double()
    nn.utils.vector_to_parameters(view.weights, model.parameters())
    x = z[:128].reshape(2, 64).clone().requires_grad_()
    logits = z[128:].reshape(2, 10).clone().requires_grad_()
    loss = cross_entropy(model(x), logits.softmax(-1))
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    flat = torch.cat([g.reshape(-1) for g in gradients])
    assert view.observation.known is not None
    distance = ((flat - view.observation.update)[view.observation.known] ** 2).sum()
    dx, dy = torch.autograd.grad(distance, [x, logits])
    assert torch.allclose(ours, torch.cat((dx.reshape(-1), dy.reshape(-1))), rtol=1e-9)


@pytest.mark.parametrize(
    "training",
    [
        LocalTraining(batch=2),
        LocalTraining("fedavg", lr=0.5, steps=3, batch=2),
        LocalTraining("fedavg", lr=0.5, steps=3, batch=1, records=2),
    ],
)
@pytest.mark.parametrize(("clients", "clip"), [(1, None), (3, None), (2, 0.1)])
@pytest.mark.parametrize("own_places", [False, True])
def test_the_truth_matches_perfectly(
    problems: Maker, training: LocalTraining, clients: int, clip: float | None, own_places: bool
) -> None:
    keep = 0.5 if own_places else None
    made = problems(
        1, training=training, clients=clients, clip=clip, keep=keep, own_places=own_places
    )
    view = made.views[0]
    units = ViewTensors.of(made.views, "double")
    candidates = Candidates.of(view, joint=False)
    data = (units.weights[0], units.update[0], units.known[0], units.client_weights[0])
    loss = squared_distance(candidates, view)
    z = made.inputs[0].reshape(-1)
    assert loss(z, *data, made.labels[0]) < 1e-25
    assert loss(z + 0.1, *data, made.labels[0]) > 1e-8


def test_units_with_and_without_rows_of_weights_share_a_call(problems: Maker) -> None:
    own = problems(1, clients=2, keep=0.5, own_places=True).views[0]
    plain = dataclasses.replace(own, observation=Observation(own.observation.update, clients=2))
    units = ViewTensors.of([own, plain], "double")
    assert isinstance(own.observation.weights, torch.Tensor)
    assert torch.equal(units.client_weights[0], own.observation.weights)
    assert torch.equal(units.client_weights[1], torch.full_like(units.client_weights[0], 0.5))
    for rows in (torch.ones(2, 9), torch.ones(3, 2410), torch.ones(2)):
        with pytest.raises(InvalidInput, match="weights must have"):
            Observation(own.observation.update, weights=rows, clients=2)


def test_soft_labels_of_any_loss_are_weighted_sums_over_classes() -> None:
    def margin(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        chosen = outputs.gather(1, targets[:, None])
        return torch.nn.functional.softplus(outputs - chosen).sum(1).mean()

    task = Task(nn.Linear(5, 3), margin, 3)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(18, generator=generator)
    inputs = torch.randn(4, 5, generator=generator)
    soft = torch.randn(4, 3, generator=generator).softmax(-1)
    outputs = task.outputs(weights, inputs)
    by_hand = sum(
        soft[row, label] * margin(outputs[row : row + 1], torch.tensor([label]))
        for row in range(4)
        for label in range(3)
    )
    assert torch.allclose(task.mean_loss(weights, inputs, soft), torch.as_tensor(by_hand) / 4)
    hard = torch.tensor([0, 2, 1, 1])
    one_hot = torch.nn.functional.one_hot(hard, 3).float()
    assert torch.allclose(
        client_update(task, weights, inputs, hard, LocalTraining(batch=4)),
        client_update(task, weights, inputs, one_hot, LocalTraining(batch=4)),
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "training",
    [
        LocalTraining(batch=2),
        LocalTraining(batch=2, record_clip=0.3),
        LocalTraining("fedavg", lr=0.5, steps=2, batch=2),
    ],
    ids=["gradients", "clipped-records", "local-steps"],
)
@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("rows", [False, True])
def test_sums_over_clients_are_a_loop_over_clients(
    problems: Maker, training: LocalTraining, clip: float | None, rows: bool
) -> None:
    made = problems(1, training=training, clients=3)
    view = made.views[0]
    shares = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    if rows:
        shares = shares[:, None] * torch.linspace(0, 2, 2410, dtype=torch.float64)
    total = torch.zeros_like(view.weights)
    for client in range(3):
        own = slice(2 * client, 2 * client + 2)
        update = client_update(
            view.task, view.weights, made.inputs[0, own], made.labels[0, own], training
        )
        if clip is not None:
            update = update * min(1.0, clip / float(update.norm()))
        total = total + shares[client] * update
    found = explained_update(
        view.task, view.weights, made.inputs[0], made.labels[0], training, shares, clip
    )
    assert torch.allclose(found, total, rtol=1e-9, atol=1e-12)
