"""Running statistics that are sent: what torch itself would have, with true derivatives."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from tests.federation.small import cohorts_of
from torch import nn
from torch.func import grad
from torch.nn.functional import cross_entropy

from trilemma.errors import InvalidInput
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.learning.modules import fitted

ONE = LocalTraining(batch=6, lr=0.3)
SEVERAL = LocalTraining("fedavg", batch=6, lr=0.3, steps=3, records=18)


def pictures() -> nn.Module:
    torch.manual_seed(0)
    first = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, momentum=0.2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(
        *first, nn.Linear(12, 4), nn.BatchNorm1d(4, affine=False), nn.Linear(4, 3)
    )


def records(count: int = 18) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.rand(count, 1, 4, 4, generator=draw), torch.arange(count) % 3


def scenario(local_training: LocalTraining) -> Scenario:
    clients = [records(30), records(24), records(40)]
    return Scenario(
        *(pictures(), cross_entropy, clients, records(), local_training), sends_statistics=True
    )


@pytest.mark.parametrize("training", [ONE, SEVERAL])
def test_an_update_leads_where_torch_goes(training: LocalTraining) -> None:
    """The oracle is a module in train mode that SGD trains, and its whole state."""
    model = pictures().double()
    task = Task(fitted(model, training.lr)[0], cross_entropy, 3)
    start = task.layout.flatten(dict(task.model.named_parameters())).detach()
    inputs, labels = records(training.unit_size)
    inputs = inputs.double()
    update = client_update(task, start, inputs, labels, training)
    step = training.lr if training.algorithm == "fedsgd" else 1.0
    after = task.layout.unflatten(start - step * update)
    descent = torch.optim.SGD(model.parameters(), training.lr)
    for number in range(training.steps if training.algorithm == "fedavg" else 1):
        rows = slice(6 * number, 6 * number + 6)
        descent.zero_grad()
        cross_entropy(model(inputs[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
        descent.step()
    state = model.state_dict()
    sent = {name for name, value in state.items() if value.is_floating_point()}
    assert set(after) == sent
    assert {"1.running_mean", "5.running_var"} <= sent
    for name, value in after.items():
        torch.testing.assert_close(value, state[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("training", [ONE, SEVERAL])
def test_its_derivative_is_that_of_a_difference_quotient(training: LocalTraining) -> None:
    """By records of earlier steps as well: what is told of them must not leak elsewhere."""
    task = Task(fitted(pictures().double(), training.lr)[0], cross_entropy, 3)
    start = task.layout.flatten(dict(task.model.named_parameters())).detach()
    inputs, labels = records(training.unit_size)
    inputs = inputs.double()
    draw = torch.Generator().manual_seed(2)
    along = torch.randn(inputs.shape, dtype=torch.float64, generator=draw)
    for name in task.layout.names:

        def part(x: torch.Tensor, name: str = name) -> torch.Tensor:
            update = client_update(task, start, x, labels, training)
            each = task.layout.unflatten(update)[name].flatten()
            return (each * torch.arange(1.0, len(each) + 1)).sum()

        gradient = float((grad(part)(inputs) * along).sum())
        ahead, behind = (float(part(inputs + way * along)) for way in (1e-6, -1e-6))
        assert gradient == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-8), name


def test_clients_alone_and_together_send_the_same() -> None:
    for training in (ONE, SEVERAL):
        cohorts, sending = cohorts_of(made := scenario(training), 3, seed=0)
        weights = made.task.layout.flatten(dict(made.task.model.named_parameters())).detach()
        together = sending.updates(weights, *cohorts.rows(0, (0, 1, 2)))
        for client, item in enumerate(together):
            alone = sending.alone(weights, *cohorts.rows(0, (client,)))
            torch.testing.assert_close(alone, item)


def test_a_scenario_says_what_is_sent_and_travels() -> None:
    made = scenario(ONE)
    plain = Scenario(pictures(), cross_entropy, [records(30)], records(), ONE)
    assert made.task.layout.size == plain.task.layout.size + 2 * (3 + 4)
    assert "sent as a part of the update, protected and attacked as such" in made.remarks[0]
    assert "sends_statistics=True measures that" in plain.remarks[0]
    other = pickle.loads(pickle.dumps(made))
    x, y = records(6)
    weights = made.task.layout.flatten(dict(made.task.model.named_parameters())).detach()
    sent = [client_update(value.task, weights, x, y, ONE) for value in (made, other)]
    assert torch.equal(*sent)
    assert torch.equal(
        client_update(Task(copy.deepcopy(made.task.model), cross_entropy, 3), weights, x, y, ONE),
        sent[0],
    )


def test_a_model_is_judged_as_torch_uses_it() -> None:
    """After a training by hand, in eval mode; in training it goes on with its batches."""
    made, model = scenario(ONE), pictures()
    task = made.task
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    model.load_state_dict(task.layout.unflatten(weights), strict=False)
    descent = torch.optim.SGD(model.parameters(), ONE.lr)
    x, y = records(6)
    for _ in range(5):
        weights = weights - ONE.lr * client_update(task, weights, x, y, ONE)
        descent.zero_grad()
        cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        descent.step()
    in_training = task.outputs(weights, x)
    used = task.judged(weights, records()[0])
    torch.testing.assert_close(used, model.eval()(records()[0]), rtol=1e-4, atol=1e-5)
    assert torch.equal(task.outputs(weights, x), in_training)
    broken = task.layout.unflatten(weights.clone())
    broken["1.running_var"].fill_(-1.0)
    with pytest.raises(InvalidInput, match="no longer positive"):
        task.judged(task.layout.flatten(broken), x)


class Own(nn.BatchNorm2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * 2)


@pytest.mark.parametrize(
    ("norm", "sentence"),
    [
        (nn.BatchNorm2d(3, momentum=None), "give it a momentum"),
        (nn.BatchNorm2d(3, track_running_stats=False), "leave it out"),
        (nn.BatchNorm2d(3).eval(), "leave it out"),
        (nn.GroupNorm(1, 3), "leave it out"),
        (Own(3), "nn.BatchNorm1d, 2d and 3d, but '1' is a Own"),
    ],
)
def test_what_cannot_be_sent_is_refused(norm: nn.Module, sentence: str) -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.Flatten(), nn.Linear(12, 3))
    with pytest.raises(InvalidInput, match=sentence):
        fitted(model, 0.1)


def test_records_that_count_one_by_one_are_refused() -> None:
    with pytest.raises(InvalidInput, match="count record by record"):
        scenario(LocalTraining(batch=6, record_clip=1.0))


class Odd(nn.Module):
    """A network that uses its layer in a way of its own."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.first, self.norm, self.last = nn.Linear(16, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x.flatten(1))
        made: dict[str, Callable[[], torch.Tensor]] = {
            "twice": lambda: self.norm(torch.relu(self.norm(h))),
            "by forward": lambda: self.norm.forward(h),
            "aside": lambda: (self.norm(h), h)[1],
            "gated": lambda: h * (self.norm(h) > 0),
            "usual": lambda: self.norm(h),
        }
        scores: torch.Tensor = self.last(made[self.way]())
        return scores


@pytest.mark.parametrize("way", ["twice", "by forward", "aside", "gated", "usual"])
def test_statistics_that_cannot_be_followed_are_refused(way: str) -> None:
    torch.manual_seed(3)
    given = (Odd(way), cross_entropy, [records(30)], records(), ONE)
    if way == "usual":
        Scenario(*given, sends_statistics=True)
        return
    with pytest.raises(InvalidInput, match="'norm' keeps of a batch cannot be followed"):
        Scenario(*given, sends_statistics=True)


def test_dropout_does_not_keep_statistics_from_being_followed() -> None:
    torch.manual_seed(3)
    layers = (nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model = nn.Sequential(*layers)
    made = Scenario(model, cross_entropy, [records(30)], records(), ONE, sends_statistics=True)
    assert made.task.statistics is not None


def test_initialise_may_load_a_whole_state_and_leaves_variances_positive() -> None:
    state = pictures().state_dict()
    given = (pictures(), cross_entropy, [records(30)], records(), ONE)

    def load(model: nn.Module) -> None:
        model.load_state_dict(state)

    def drawn(model: nn.Module) -> None:
        for parameter in model.parameters():
            nn.init.normal_(parameter)

    made = Scenario(*given, initialise=load, sends_statistics=True)
    weights = made.task.layout.unflatten(fresh_weights(made, [0])[0])
    assert torch.equal(weights["0.weight"], state["0.weight"])
    with pytest.raises(InvalidInput, match=r"leaves '1.running_var' at -.*no parameter named"):
        fresh_weights(Scenario(*given, initialise=drawn, sends_statistics=True), range(3))
