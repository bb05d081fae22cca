from __future__ import annotations

import copy
import math
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.federation.small import SIZES, federation, network, trained
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation import cohort_updates
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, Task, way_of
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.records.records import Records

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)
FEDAVG = LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8)  # the last step wraps round


def by_hand(
    scenario: Scenario, rounds: int, seed: int, per_round: int = 3, server_lr: float | None = None
) -> torch.Tensor:
    """FedSGD and FedAvg as everyone writes them: a module a client, torch.optim.SGD, a mean."""
    setting, draws = scenario.local_training, Seeded(seed)
    model = copy.deepcopy(scenario.model)
    for number in range(rounds):
        cohort = list(range(3))
        if per_round < 3:
            draw = draws.generator("cohort", number)
            cohort = sorted(draw.choice(3, per_round, replace=False).tolist())
        total = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
        for client in cohort:
            size = len(scenario.records[client])
            draw = draws.generator("batch", number, client)
            unit = scenario.records[client][
                torch.from_numpy(draw.choice(size, setting.unit_size, replace=False))
            ]
            local = copy.deepcopy(model)
            optimiser = torch.optim.SGD(local.parameters(), lr=setting.lr)
            for step in range(setting.steps):
                rows = [(step * setting.batch + i) % len(unit) for i in range(setting.batch)]
                optimiser.zero_grad()
                loss = cross_entropy(local(unit.inputs[rows]), unit.labels[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            share = size / sum(len(scenario.records[item]) for item in cohort)
            for kept, new, old in zip(total, local.parameters(), model.parameters(), strict=True):
                change = (old.detach() - new.detach()).double()
                kept += share * (change / setting.lr if setting.algorithm == "fedsgd" else change)
        rate = server_lr or (setting.lr if setting.algorithm == "fedsgd" else 1.0)
        with torch.no_grad():
            for kept, parameter in zip(total, model.parameters(), strict=True):
                parameter.sub_((rate * kept).float())
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three clients in one vmapped pass, which are too few for it to pay."""
    monkeypatch.setattr(cohort_updates, "_FEW", 1)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("setting", [FEDSGD, FEDAVG], ids=["fedsgd", "fedavg"])
@pytest.mark.parametrize("busy", [math.inf, -1], ids=["vmapped", "one by one"])
@pytest.mark.parametrize(("per_round", "server_lr"), [(3, None), (2, 0.7)])
def test_training_is_what_a_plain_loop_does(
    setting: LocalTraining,
    busy: float,
    per_round: int,
    server_lr: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cohort_updates, "_BUSY_FLOPS", busy)
    scenario = federation(setting)
    history = trained(scenario, rounds=5, seed=4, clients_per_round=per_round, server_lr=server_lr)
    assert (history.one_by_one is None) == (busy > 0)
    expected = by_hand(scenario, 5, 4, per_round, server_lr)
    assert torch.allclose(history.weights, expected, atol=2e-6)
    assert {len(item.clients) for item in history.rounds} == {per_round}


BY_RECORD = {
    "clipped": LocalTraining(lr=0.5, batch=6, record_clip=0.4),
    "poisson": LocalTraining(lr=0.5, batch=6, sampling="poisson"),
    "both": LocalTraining(lr=0.5, batch=6, record_clip=0.4, sampling="poisson"),
    "steps": LocalTraining("fedavg", 0.3, 3, 6, record_clip=0.4, sampling="poisson"),
}


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("name", BY_RECORD)
@pytest.mark.parametrize("busy", [math.inf, -1], ids=["vmapped", "one by one"])
def test_records_that_count_one_by_one_train_as_a_plain_loop_does(
    name: str, busy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of 8, 12 and 20 records: one mask a record and step, S in the denominator."""
    monkeypatch.setattr(cohort_updates, "_BUSY_FLOPS", busy)
    setting = BY_RECORD[name]
    scenario = federation(setting)
    history = trained(scenario, rounds=3, seed=4)
    model, draws = copy.deepcopy(scenario.model), Seeded(4)
    for number in range(3):
        total = [torch.zeros_like(p) for p in model.parameters()]
        for client, records in enumerate(scenario.records):
            local, size = copy.deepcopy(model), len(records)
            draw = draws.generator("batch", number, client)
            if setting.sampling == "poisson":
                taken = draw.random((setting.steps, size)) < 6 / size
            else:
                taken = np.isin(range(size), draw.choice(size, 6, replace=False))[None]
            for step in range(setting.steps):
                steps = [torch.zeros_like(p) for p in local.parameters()]
                for row in np.flatnonzero(taken[step]):
                    loss = cross_entropy(
                        local(records.inputs[row, None]), records.labels[row, None]
                    )
                    grads = torch.autograd.grad(loss, list(local.parameters()))
                    norm = math.sqrt(sum(float((g**2).sum()) for g in grads))
                    scale = min(1.0, (setting.record_clip or math.inf) / norm)
                    for kept, gradient in zip(steps, grads, strict=True):
                        kept += scale * gradient / 6
                with torch.no_grad():
                    for parameter, gradient in zip(local.parameters(), steps, strict=True):
                        parameter.sub_(setting.lr * gradient)
            share = size / sum(SIZES)
            for kept, new, old in zip(total, local.parameters(), model.parameters(), strict=True):
                kept += share * (old.detach() - new.detach())
        with torch.no_grad():
            for kept, parameter in zip(total, model.parameters(), strict=True):
                parameter.sub_(kept)
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    assert torch.allclose(history.weights, expected, atol=2e-6)


class Branching(nn.Module):
    """Looks at a value, which vmap forbids; or has a tensor tell, which is the same."""

    def __init__(self, looks: bool) -> None:
        super().__init__()
        self.inner, self.looks = network(), looks

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        positive = inputs.sum() > 1.0
        scale = torch.where(positive, 2.0, 1.0)
        if self.looks:
            scale = torch.tensor(2.0 if positive.item() else 1.0)
        outputs: torch.Tensor = self.inner(inputs)
        return outputs * scale


def branching(training: LocalTraining, *, looks: bool = True) -> Scenario:
    scenario, model = federation(training), Branching(looks)
    object.__setattr__(scenario, "model", model)
    task, some = Task(model, cross_entropy, 3), scenario.records[0]
    way = way_of(task, some.inputs, some.labels)
    object.__setattr__(scenario, "task", replace(task, way=way))
    return scenario


@pytest.mark.usefixtures("together")
def test_a_model_that_vmap_refuses_trains_one_by_one_and_says_why() -> None:
    scenario = branching(FEDAVG)
    history = trained(scenario, rounds=2, seed=1)
    assert history.one_by_one == scenario.task.way.reason != ""
    assert torch.allclose(history.weights, by_hand(scenario, 2, 1), atol=2e-6)


def test_a_model_that_vmap_refuses_clips_record_by_record() -> None:
    looped = branching(BY_RECORD["both"])
    mapped = branching(BY_RECORD["both"], looks=False)
    assert (looped.task.way.kind, mapped.task.way.kind) == ("looped", "recorded")
    found, expected = (trained(value, rounds=2, seed=1).weights for value in (looped, mapped))
    torch.testing.assert_close(found, expected)


def test_a_seed_fixes_everything_and_protection_changes_only_the_updates() -> None:
    scenario = federation(FEDSGD)
    noisy = Protection((Randomization(1e-4),))
    first = trained(scenario, noisy, rounds=4, seed=9, clients_per_round=2)
    again = trained(scenario, noisy, rounds=4, seed=9, clients_per_round=2)
    plain = trained(scenario, rounds=4, seed=9, clients_per_round=2)
    other = trained(scenario, rounds=4, seed=10, clients_per_round=2)
    assert torch.equal(first.weights, again.weights)
    cohort = [item.clients for item in plain.rounds]
    assert [item.clients for item in first.rounds] == cohort
    assert [item.clients for item in other.rounds] != cohort
    # The same batches: the two differ by the noise, lr · s · √(1/Σ...) a round, and no more.
    gap = (first.weights - plain.weights).std().item()
    assert 0.2 * 0.5 * 0.01 < gap < 5 * 0.5 * 0.01
    assert (other.weights - plain.weights).std().item() > 3 * gap


def test_unit_weights_on_request() -> None:
    scenario = federation(FEDSGD, sizes=(6, 6, 6))
    unlike = federation(FEDSGD)
    assert torch.equal(
        trained(scenario, rounds=2).weights,
        trained(scenario, rounds=2, equal_weights=True).weights,
    )
    assert not torch.allclose(
        trained(unlike, rounds=2).weights, trained(unlike, rounds=2, equal_weights=True).weights
    )
    with pytest.raises(InvalidInput, match="unweighted sum only"):
        trained(unlike, Protection((BoundedMask(1.0),)), rounds=1)
    masked = trained(unlike, Protection((BoundedMask(1.0),)), rounds=2, equal_weights=True)
    assert torch.allclose(
        masked.weights, trained(unlike, rounds=2, equal_weights=True).weights, atol=1e-5
    )


def test_rounds_are_evaluated_when_asked_and_at_the_end() -> None:
    scenario = federation(FEDAVG)
    history = trained(scenario, rounds=5, evaluate_every=2)
    assert [item.metric is not None for item in history.rounds] == [False, True, False, True, True]
    model = copy.deepcopy(scenario.model)
    model.load_state_dict(scenario.task.layout.unflatten(history.weights))
    outputs, labels = model(scenario.test_records.inputs), scenario.test_records.labels
    assert history.metric == (outputs.argmax(1) == labels).float().mean().item()
    assert history.loss == pytest.approx(cross_entropy(outputs, labels).item(), abs=1e-6)
    for records, value in zip(scenario.records, history.client_metrics, strict=True):
        right = model(records.inputs).argmax(1) == records.labels
        assert value == pytest.approx(right.float().mean().item())
    assert len(history.client_metrics) == len(SIZES)
    assert history.scores is not None
    assert history.scores.tolist() == (outputs.argmax(1) == labels).float().tolist()
    assert [None if s is None else len(s) for s in history.client_scores] == list(SIZES)


def test_a_metric_of_ones_own() -> None:
    def margin(outputs: torch.Tensor, labels: torch.Tensor) -> float:
        return float(outputs.gather(1, labels[:, None]).mean())

    history = trained(federation(FEDAVG), rounds=1, metric=margin)
    assert history.metric != trained(federation(FEDAVG), rounds=1).metric


def test_without_classes_the_metric_is_minus_the_loss() -> None:
    draw = torch.Generator().manual_seed(1)
    records = Records(torch.rand(9, 2, generator=draw), torch.rand(9, 1, generator=draw))
    scenario = Scenario(nn.Linear(2, 1), mse_loss, [records, records], records, FEDSGD)
    history = trained(scenario, rounds=3)
    assert history.metric == pytest.approx(-history.loss)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "the recipe says no number of rounds; give it rounds=150, say."),
        ({"rounds": 0}, "rounds must be at least 1, got 0."),
        ({"rounds": 1, "evaluate_every": 0}, "evaluate_every must be at least 1"),
        ({"rounds": 1, "clients_per_round": 4}, "must lie in 1 .. 3, the number of clients"),
        ({"rounds": 1, "clients_per_round": 0}, "must lie in 1 .. 3, the number of clients"),
        (
            {"rounds": 1, "clients_per_round": 2, "threshold": 3},
            "a round has 2 clients, fewer than the threshold of 3; lower it",
        ),
        ({"rounds": 1, "server_lr": -1.0}, "server_lr must be positive"),
        ({"rounds": 1, "weights": torch.zeros(7)}, "all must train the same model"),
        ({"rounds": 1, "metric": lambda o, y: math.nan}, "the metric returned nan after round 0"),
        ({"rounds": 1, "metric": lambda o, y: None}, "the metric must return a number"),
        ({"rounds": 1, "metric": lambda o, y: o}, "the metric must return a number"),
        ({"rounds": 3, "server_lr": 1e39}, "diverged in round 0: its weights"),
    ],
)
def test_bad_input_is_one_clear_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        trained(federation(), **settings)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_what_the_cpu_gives() -> None:
    from dataclasses import replace

    on_cpu = trained(federation(FEDAVG), Protection((Randomization(1e-4),)), rounds=3)
    scenario = replace(federation(FEDAVG), device="cuda")
    on_gpu = trained(scenario, Protection((Randomization(1e-4),)), rounds=3)
    assert torch.allclose(on_gpu.weights.cpu(), on_cpu.weights, atol=1e-5)


TRANSPORTS: dict[str, Transport] = {
    "paillier": Paillier(bits=256, insecure=True, clip_range=2.0),
    "blind": Paillier(bits=256, insecure=True, mode="blind", clip_range=2.0),
    "sharing": SecretSharing(clip_range=2.0),
    "sharing-64": SecretSharing(clip_range=2.0, precision_bits=24, ring_bits=64),
}


@pytest.mark.parametrize("setting", [FEDSGD, FEDAVG], ids=["fedsgd", "fedavg"])
@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS)
def test_an_aggregate_under_cryptography_is_the_plain_one(
    transport: Transport, setting: LocalTraining
) -> None:
    """A weighted mean of values that err by half a step each errs by half a step at most."""
    scenario = federation(setting)
    rate = setting.lr if setting.algorithm == "fedsgd" else 1.0
    plain = trained(scenario, rounds=1, seed=5).weights
    hidden = trained(scenario, Protection((), transport), rounds=1, seed=5).weights
    error = (plain - hidden).abs().max().item()
    assert error <= rate * transport.step_size() / 2 + 1e-6
    if transport.step_size() > 1e-5:
        assert error > 0, "a fixed-point grid of this width must show"


@pytest.mark.parametrize("transforms", [(), (Compression(0.6),), (Randomization(1e-2),)])
@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS)
def test_the_twin_computes_the_same_numbers(
    transport: Transport, transforms: tuple[Compression | Randomization, ...]
) -> None:
    """Of cohorts of two clients, whose 8, 12 and 20 records are their weights."""
    protection = Protection(transforms, transport)
    scenario = federation(FEDSGD)
    real = trained(scenario, protection, rounds=3, seed=6, clients_per_round=2)
    for real_rounds in (0, 1):
        twin = trained(
            scenario, protection, rounds=3, seed=6, clients_per_round=2, real_rounds=real_rounds
        )
        assert torch.equal(real.weights, twin.weights)


def test_the_twin_trains_a_network_with_batchnorm_as_its_original_does() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))
    protection = Protection((Randomization(1e-2),), SecretSharing(clip_range=8.0))
    real, twin = (
        trained(
            federation(FEDAVG, model), protection, rounds=3, equal_weights=True, real_rounds=count
        )
        for count in (3, 0)
    )
    assert torch.equal(real.weights, twin.weights)


def test_without_a_grid_all_rounds_are_real() -> None:
    protection = Protection((TopK(0.5),))
    one, other = (
        trained(federation(), protection, rounds=2, real_rounds=real) for real in (None, 0)
    )
    assert torch.equal(one.weights, other.weights)


def test_the_twin_refuses_what_its_original_refuses() -> None:
    protection = Protection((), SecretSharing(clip_range=1e-6))
    for real_rounds in (None, 0):
        with pytest.raises(InvalidInput, match="beyond clip_range=1e-06"):
            trained(federation(), protection, rounds=1, real_rounds=real_rounds)
    heavy = Protection((), SecretSharing(max_weight=30, clip_range=2.0))  # 40 records in all
    for real_rounds in (None, 0):
        with pytest.raises(InvalidInput, match="max_weight"):
            trained(federation(), heavy, rounds=1, real_rounds=real_rounds)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_a_federation_need_not_be_hashable_and_is_not_kept(device: str) -> None:
    scenario = federation()

    class Own:
        __hash__ = None  # type: ignore[assignment]

        task, records, test_records = scenario.task, scenario.records, scenario.test_records

        def __init__(self) -> None:
            self.device = device

    own = Own()
    gone = weakref.ref(own)
    assert len(trained(own, local_training=FEDSGD, rounds=1).rounds) == 1
    del own
    assert gone() is None
