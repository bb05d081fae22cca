"""A recipe as a value, and what its server does against loops as everyone writes them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.federation.small import federation, network, trained
from torch.nn.functional import cross_entropy

from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server import Server
from trilemma.federation.server_parts import WarmStart
from trilemma.federation.training import train
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.records.records import Records

FULL = LocalTraining(batch=10, record_clip=0.3, sampling="full")
OWN = Recipe(FULL, rounds=3)
CHANGES: list[dict[str, Any]] = [
    {"local_training": LocalTraining(batch=10)},
    {"server_lr": 2.0},
    {"server_decay": True},
    {"equal_weights": True},
    {"judge": "choosing"},
    {"threshold": 2},
    {"rounds": 4},
    {"momentum": 0.5},
    {"averaging": 0.5},
    {"warm_start": WarmStart(3, 0.1, 0.9)},
    {"public_weight": 0.1},
    {"centring": "public"},
    {"centring": 0.3},
]


def test_recipes_are_equal_by_their_fields_and_survive_json() -> None:
    recipes = [OWN, *(replace(OWN, **change) for change in CHANGES)]
    assert len(set(recipes)) == len({item.describe() for item in recipes}) == len(recipes)
    for item in recipes:
        read = Recipe.from_json(json.loads(json.dumps(item.as_json())))
        assert read == item
        assert hash(read) == hash(item)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"server_lr": 0.0}, "server_lr must be positive"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"averaging": -0.1}, r"averaging must lie in \[0, 1\)"),
        ({"public_weight": float("nan")}, r"public_weight must lie in \[0, 1\)"),
        ({"centring": "mean"}, "centring must be 'public', a number or None, got 'mean'"),
        (
            {"public_weight": 0.1, "local_training": LocalTraining("fedavg")},
            "mixes gradients, but fedavg sends changes of weights",
        ),
    ],
)
def test_a_recipe_checks_itself(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        replace(OWN, **change)
    with pytest.raises(InvalidInput, match=r"steps \(of the warm start\) must be at least 1"):
        WarmStart(0, 0.1)
    with pytest.raises(InvalidInput, match=r"momentum \(of the warm start\) must lie in"):
        WarmStart(1, 0.1, 1.0)


def public() -> Records:
    draw = torch.Generator().manual_seed(8)
    return Records(torch.rand(7, 5, generator=draw), torch.randint(0, 3, (7,), generator=draw))


def test_a_warm_start_is_what_torchs_own_optimiser_does() -> None:
    scenario, records, model = federation(), public(), network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for _ in range(6):
        optimiser.zero_grad()
        cross_entropy(model(records.inputs), records.labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    server = Server(scenario.task, replace(OWN, warm_start=WarmStart(6, 0.2, 0.9)), 3, records)
    layout = scenario.task.layout
    own = layout.flatten(dict(network().named_parameters())).detach()
    found = server.start(torch.stack([own, own + 0.1]))
    expected = layout.flatten(dict(model.named_parameters()))
    assert torch.allclose(found[0], expected, atol=1e-6)
    assert not torch.allclose(found[1], expected, atol=1e-2)


def test_steps_follow_momentum_decay_and_the_public_gradient_and_end_in_an_average() -> None:
    scenario, records = federation(), public()
    recipe = replace(
        OWN, server_lr=2.0, server_decay=True, momentum=0.8, averaging=0.6, public_weight=0.25
    )
    server, draw = Server(scenario.task, recipe, 3, records), torch.Generator().manual_seed(1)
    model, layout = network(), scenario.task.layout
    weights = layout.flatten(dict(model.named_parameters())).detach()
    start = weights[None]
    velocity, average = torch.zeros_like(weights), None
    for number in range(3):
        mean = torch.randn(len(weights), generator=draw)
        start = server.step(start, mean[None], number)
        own = copy.deepcopy(model)
        own.load_state_dict(layout.unflatten(weights))
        total = torch.zeros_like(weights)
        for x, y in zip(records.inputs, records.labels, strict=True):
            grads = torch.autograd.grad(
                cross_entropy(own(x[None]), y[None]), list(own.parameters())
            )
            row = torch.cat([grad.flatten() for grad in grads])
            total += row * min(1.0, 0.3 / float(row.norm())) / 7
        velocity = 0.8 * velocity + 0.75 * mean + 0.25 * total
        weights = weights - 2.0 * (3 - number) / 3 * velocity
        average = weights if average is None else 0.6 * average + 0.4 * weights
        assert torch.allclose(start[0], weights, atol=1e-5)
    assert average is not None
    assert torch.allclose(server.trained(start)[0], average, atol=1e-5)


def test_without_public_records_a_recipe_that_needs_them_is_refused() -> None:
    for change in ({"warm_start": WarmStart(1, 0.1)}, {"public_weight": 0.1}):
        with pytest.raises(InvalidInput, match="there are none; pass public="):
            train(federation(FULL), Protection(), replace(OWN, **change))


def test_seeds_of_one_pass_are_trainings_of_their_own() -> None:
    scenario = federation(FULL)
    protection = Protection((Randomization(1e-3),), SecretSharing(clip_range=2.0))
    recipe = replace(OWN, momentum=0.5, averaging=0.5, equal_weights=True)
    draw = torch.Generator().manual_seed(2)
    starts = torch.randn(2, scenario.task.layout.size, generator=draw)
    both = train(scenario, protection, recipe, seeds=(5, 9), weights=starts, real_rounds=0)
    for history, seed, start in zip(both, (5, 9), starts, strict=True):
        (alone,) = train(scenario, protection, recipe, seeds=(seed,), weights=start, real_rounds=0)
        assert torch.equal(history.weights, alone.weights)
    with pytest.raises(InvalidInput, match="but 3 trainings of a model of 39 parameters take"):
        train(scenario, protection, recipe, seeds=(1, 2, 3), weights=starts)


@pytest.mark.parametrize("many", [False, True], ids=["written out", "by factors"])
def test_full_batches_train_as_a_plain_loop_does(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of 8, 12 and 20 records: all of them in every round, and 10 in the denominator."""
    if many:
        monkeypatch.setattr("trilemma.federation.cohort_updates._WRITTEN", 0)
    scenario, model = federation(FULL), network()
    history = trained(scenario, rounds=3, server_lr=2.0, equal_weights=True)
    for _ in range(3):
        total = [torch.zeros_like(item) for item in model.parameters()]
        for records in scenario.records:
            for x, y in zip(records.inputs, records.labels, strict=True):
                parameters = list(model.parameters())
                grads = torch.autograd.grad(cross_entropy(model(x[None]), y[None]), parameters)
                norm = torch.cat([grad.flatten() for grad in grads]).norm()
                for kept, gradient in zip(total, grads, strict=True):
                    kept += gradient * min(1.0, 0.3 / float(norm)) / 10 / 3
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), total, strict=True):
                parameter.sub_(2.0 * gradient)
    expected = torch.cat([item.detach().flatten() for item in model.parameters()])
    assert torch.allclose(history.weights, expected, atol=2e-6)
