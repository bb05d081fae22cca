"""The server's side of a recipe under Flower's own FedAvg, against trainings in this process."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.deployment.flower.harness import NODES, DirectGrid, train_only, with_ledgers

from trilemma.deployment.flower import (
    Deployment,
    ProtectedGrid,
    Terms,
    local_update,
    protect_mod,
)
from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import PublicRecords, WarmStart
from trilemma.federation.training import train
from trilemma.game.recipe_scenarios import applied, settled
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.records.records import Records

SIZE, ROUNDS = 6, 3
SHARING = SecretSharing(clip_range=2.0, max_weight=4, precision_bits=28, ring_bits=64)
WHOLE = {
    "server_decay": True,
    "momentum": 0.6,
    "warm_start": WarmStart(4, 0.3, 0.9),
    "public_weight": 0.2,
    "centring": "public",
}


def network(kind: str) -> nn.Module:
    torch.manual_seed(3)
    if kind == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 3))
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)
    )


def records(seed: int, count: int = SIZE) -> Records:
    draw = torch.Generator().manual_seed(seed)
    return Records(
        0.2 + torch.rand(count, 1, 4, 4, generator=draw),
        torch.randint(0, 3, (count,), generator=draw),
    )


def federation(kind: str) -> Scenario:
    return Scenario(
        network(kind),
        cross_entropy,
        clients=[records(seed) for seed in range(4)],
        public=records(9, 5),
        test=records(10),
        local_training=LocalTraining(batch=SIZE, record_clip=0.2, sampling="full"),
    )


def asked(kind: str, **changes: object) -> tuple[Scenario, Recipe, Deployment]:
    """A federation, its recipe, and the deployment of both."""
    scenario = federation(kind)
    recipe = Recipe(scenario.local_training, 1.5, equal_weights=True, threshold=3, rounds=ROUNDS)
    recipe = settled(replace(recipe, **changes), scenario)  # type: ignore[arg-type]
    deployment = Deployment(
        scenario.local_training,
        *(scenario.task.layout.size, 4, 4, 3),
        rounds=ROUNDS,
        server=recipe.server(PublicRecords.of(scenario.public_records, b"k" * 32)),
    )
    return scenario, recipe, deployment


def app_of(kind: str, terms: Terms) -> ClientApp:
    """An app as its author writes it: the plain model, and `local_update`."""
    app = ClientApp(mods=[protect_mod(terms)])

    @app.train()
    def run(message: Message, context: Context) -> Message:
        model = network(kind)
        arrays = message.content.array_records["arrays"].to_torch_state_dict()
        model.load_state_dict(arrays)
        local_update(model, cross_entropy, records(NODES.index(context.node_id)), terms)
        content = RecordDict({"arrays": ArrayRecord(model.state_dict())})
        content["metrics"] = MetricRecord({"n": 1})
        return Message(content, reply_to=message)

    return app


def deployed(kind: str, deployment: Deployment, folder: Path, *stops: int) -> nn.Module:
    """The model of a federation in Flower, whose server is stopped after these rounds."""
    terms = Terms.deployed(Protection((), SHARING), deployment)
    model, app = network(kind), app_of(kind, terms)
    arrays = ArrayRecord(model.state_dict())
    for rounds in (*stops, ROUNDS):
        grid = ProtectedGrid(
            with_ledgers(DirectGrid(app), folder),
            terms,
            checkpoint=folder / "model.npz" if stops else None,
            model=network(kind),
            loss=cross_entropy,
            public=records(9, 5),
        )
        left = rounds if not stops else grid.rounds_left(rounds)
        first = grid.resumed(arrays) if stops else arrays
        result = train_only().start(grid, first, num_rounds=left)
    model.load_state_dict(result.arrays.to_torch_state_dict())
    return model


def in_process(scenario: Scenario, recipe: Recipe, kind: str) -> nn.Module:
    """The model, with centred layers, of a training without messages from the same start."""
    trained = applied(recipe, scenario)
    start = trained.task.layout.flatten(dict(trained.task.model.named_parameters()))
    (history,) = train(
        *(trained, Protection(), recipe),
        weights=start.detach(),
        public=trained.public_records,
        real_rounds=0,
    )
    model = copy.deepcopy(trained.model)
    model.load_state_dict(trained.task.layout.unflatten(history.weights))
    return model


@pytest.mark.parametrize("kind", ["linear", "convolution"])
@pytest.mark.parametrize(
    "changes",
    [WHOLE, {"centring": 0.3}, {"momentum": 0.5, "averaging": 0.7}],
    ids=["all", "one number", "averaged"],
)
def test_flower_trains_as_tuning_did(
    kind: str, changes: dict[str, object], tmp_path: Path
) -> None:
    scenario, recipe, deployment = asked(kind, **changes)
    made, expected = deployed(kind, deployment, tmp_path), in_process(scenario, recipe, kind)
    inputs = scenario.test_records.inputs
    outputs = made(inputs)
    assert torch.allclose(outputs, expected(inputs), atol=1e-4)
    assert not torch.allclose(outputs, network(kind)(inputs), atol=0.05), "it moved"
    other = in_process(scenario, replace(recipe, centring=None, momentum=0.0), kind)
    assert not torch.allclose(outputs, other(inputs), atol=1e-3)


def test_a_server_that_was_stopped_goes_on_with_its_momentum(tmp_path: Path) -> None:
    scenario, recipe, deployment = asked("linear", **WHOLE)
    made = deployed("linear", deployment, tmp_path, 1, 2)
    expected = in_process(scenario, recipe, "linear")
    inputs = scenario.test_records.inputs
    assert torch.allclose(made(inputs), expected(inputs), atol=1e-4)


def test_what_a_client_sends_is_clipped_where_the_noise_is() -> None:
    """The gradient in (W, b + W m) of each record, by torch's own autograd and the chain rule."""
    scenario, _, deployment = asked("linear", centring="public")
    terms = Terms.deployed(Protection((), SHARING), deployment)
    model, own = network("linear"), records(0)
    mean = records(9, 5).inputs.flatten(1).mean(0)
    assert deployment.server is not None
    first, second = deployment.server.centring
    assert first.mean == pytest.approx(mean.tolist())
    assert (first.layer, second.layer) == ("1", "3")
    deep = torch.tensor(second.mean)
    rows = []
    for x, y in zip(own.inputs, own.labels, strict=True):
        grads = torch.autograd.grad(
            cross_entropy(model(x[None]), y[None]), list(model.parameters())
        )
        parts = [
            *(grads[0] - torch.outer(grads[1], mean), grads[1]),
            *(grads[2] - torch.outer(grads[3], deep.expand(5)), grads[3]),
        ]
        row = torch.cat([part.flatten() for part in parts])
        rows.append(row * min(1.0, 0.2 / float(row.norm())))
    expected = torch.stack(rows).mean(0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    update = local_update(model, cross_entropy, own, terms)
    assert torch.allclose(update, expected, atol=1e-6)
    layout = scenario.task.layout
    moved = layout.flatten(before) - layout.flatten(model.state_dict())
    plain = layout.unflatten(scenario.local_training.lr * update)
    plain["1.bias"] = plain["1.bias"] - plain["1.weight"] @ mean
    plain["3.bias"] = plain["3.bias"] - plain["3.weight"] @ deep.expand(5)
    assert torch.allclose(moved, layout.flatten(plain), atol=1e-6), "the model keeps its (W, b)"


def test_other_public_records_and_models_are_refused() -> None:
    _, _, deployment = asked("linear", **WHOLE)
    terms = Terms.deployed(Protection((), SHARING), deployment)
    direct = DirectGrid(app_of("linear", terms))
    with pytest.raises(InvalidInput, match=r"pass the model, its loss and these records: model="):
        ProtectedGrid(direct, terms)
    given = {"model": network("linear"), "loss": cross_entropy}
    for public, sentence in (
        (records(9, 4), "trains on 5 public records, but 4 were given"),
        (records(8, 5), "these 5 public records are others than took part in tuning"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            ProtectedGrid(direct, terms, public=public, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="layer '1', which is to be centred, has no weight"):
        ProtectedGrid(
            direct,
            terms,
            model=network("convolution"),
            loss=cross_entropy,
            public=records(9, 5),
        )
    blind = Paillier(bits=512, mode="blind", clip_range=8.0, max_weight=100, insecure=True)
    with pytest.raises(InvalidInput, match="under blind Paillier there is no server that reads"):
        Terms.deployed(Protection((), blind), deployment)


def test_the_records_hash_is_keyed() -> None:
    own = records(9, 5)
    assert PublicRecords.of(own, b"k" * 32) == PublicRecords.of(own, b"k" * 40)
    other = PublicRecords.of(own, b"l" * 32)
    assert other.digest != PublicRecords.of(own, b"k" * 32).digest
    changed = own.inputs.clone()
    changed[0, 0, 0, 0] = torch.nextafter(changed[0, 0, 0, 0], torch.tensor(9.0))
    with pytest.raises(InvalidInput, match="are others"):
        other.require(Records(changed, own.labels))
