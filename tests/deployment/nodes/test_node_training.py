from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, kstest
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.deployment.nodes.node_training import _SystemDraws, local_update, only_made, watched
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining
from trilemma.records.records import Records
from trilemma.updates import Layout

CLIP, BATCH, COUNT = 0.05, 4, 20
POISSON = Deployment(
    LocalTraining(lr=0.5, batch=BATCH, record_clip=CLIP, sampling="poisson"),
    parameters=39,
    clients=3,
    cohort=3,
    threshold=2,
    sampling_rate=BATCH / COUNT,
    participation="secret",
)
NOISE = "randomization:variance=0.01"


def terms_of(deployment: Deployment = POISSON) -> Terms:
    return Terms.deployed(NOISE, deployment)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(12, 3)


def records(count: int = COUNT) -> Records:
    draw = torch.Generator().manual_seed(2)
    inputs = 10 * torch.rand(count, 12, generator=draw)
    return Records(inputs, torch.arange(count) % 3)


def gradients(model: nn.Module, data: Records, clip: float | None = CLIP) -> torch.Tensor:
    """Each record's clipped gradient over S [n, m], by plain autograd."""
    rows = []
    for x, y in zip(data.inputs, data.labels, strict=True):
        model.zero_grad()
        cross_entropy(model(x[None]), y[None]).backward()  # type: ignore[no-untyped-call]
        row = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        rows.append(row * min(1.0, (clip or math.inf) / float(row.norm())) / BATCH)
    model.zero_grad()
    return torch.stack(rows)


def test_an_update_is_a_sum_of_some_records_clipped_gradients() -> None:
    each = gradients(network(), records())
    assert torch.linalg.matrix_rank(each) == COUNT
    used = torch.zeros(COUNT)
    rounds = 200
    for _ in range(rounds):
        model = network()
        before = torch.cat([p.detach().flatten() for p in model.parameters()])
        update = local_update(model, cross_entropy, records(), terms_of())
        # The gradients are independent vectors, so the update says which of them it holds.
        shares = torch.linalg.lstsq(each.double().T, update.double()).solution
        assert torch.all((shares - shares.round()).abs() < 1e-3)
        assert set(shares.round().int().tolist()) <= {0, 1}
        used += shares.round().float()
        after = torch.cat([p.detach().flatten() for p in model.parameters()])
        torch.testing.assert_close(after, before - 0.5 * update)
    total = int(used.sum())
    assert binomtest(total, COUNT * rounds, BATCH / COUNT).pvalue > 1e-6


def test_any_training_of_the_terms_can_be_run() -> None:
    fixed = replace(
        POISSON,
        local_training=LocalTraining("fedavg", lr=0.5, batch=4, steps=3, records=8),
        participation="known",
        sampling_rate=0.4,
    )
    model = network()
    start = [parameter.detach().clone() for parameter in model.parameters()]
    update = local_update(model, cross_entropy, records(), terms_of(fixed))
    moved = torch.cat(
        [(a - b).detach().flatten() for a, b in zip(start, model.parameters(), strict=True)]
    )
    torch.testing.assert_close(moved, update, atol=1e-6, rtol=1e-5)


def test_draws_come_from_the_system_and_are_uniform() -> None:
    draws = _SystemDraws()
    sample = draws.random((40, 500))
    assert sample.shape == (40, 500)
    assert 0 <= sample.min() < sample.max() < 1
    assert kstest(sample.ravel(), "uniform").pvalue > 1e-6
    assert not np.array_equal(sample, draws.random((40, 500)))
    chosen = np.array([draws.choice(10, 4, replace=False) for _ in range(3000)])
    assert all(len(set(row)) == 4 for row in chosen.tolist())
    counts = np.bincount(chosen.ravel(), minlength=10)
    assert min(binomtest(int(count), 3000, 0.4).pvalue for count in counts) > 1e-6


# Records on which the model fails


def fails_on(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy, and no number where an output is large."""
    root = (1e6 - outputs.abs().sum(1, keepdim=True)).sqrt().detach()
    return cross_entropy(outputs * (root / root), labels)


@pytest.mark.parametrize("clip", [None, CLIP])
@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
@pytest.mark.parametrize("what", ["overflows", "raises"])
def test_a_record_that_fails_contributes_nothing_and_the_others_what_they_do(
    clip: float | None, algorithm: Literal["fedsgd", "fedavg"], what: str
) -> None:
    """All records take part, so that what is left out is seen."""
    for sampling in ("poisson",) if clip is None else ("poisson", "fixed"):
        training = LocalTraining(
            algorithm,
            lr=0.5,
            batch=COUNT,
            record_clip=clip,
            sampling=cast(Literal["fixed", "poisson"], sampling),
        )
        every = replace(POISSON, local_training=training, participation="known", sampling_rate=1.0)
        data = records()
        inputs, labels = data.inputs.clone(), data.labels.clone()
        if what == "overflows":
            inputs[0] *= 1e7
        else:
            labels[0] = 3  # of three classes
        update = local_update(network(), fails_on, Records(inputs, labels), terms_of(every))
        shares = gradients(network(), Records(data.inputs[1:], data.labels[1:]), clip)
        expected = shares.sum(0) * BATCH / COUNT * (0.5 if algorithm == "fedavg" else 1.0)
        torch.testing.assert_close(update, expected, atol=1e-6, rtol=1e-5)


def test_a_model_that_fails_on_every_record_is_refused() -> None:
    model = network()
    with torch.no_grad():
        model.get_parameter("bias").fill_(1e20)
    unclipped = replace(POISSON.local_training, record_clip=None)
    with pytest.raises(InvalidInput, match="the update holds NaN or infinity"):
        local_update(
            model, fails_on, records(), terms_of(replace(POISSON, local_training=unclipped))
        )


# Refusals


def test_a_larger_share_than_measured_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a round draws 4 of this node's 19 records, a share"):
        local_update(network(), cross_entropy, records(COUNT - 1), terms_of())
    local_update(network(), cross_entropy, records(COUNT + 1), terms_of())


def test_a_precision_that_rounds_beyond_the_clip_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"'weight' is torch\.bfloat16, .* \(model\.float\(\)\)"
    ):
        local_update(network().bfloat16(), cross_entropy, records(), terms_of())


def test_a_model_with_a_memory_of_batches_is_refused() -> None:
    model = nn.Sequential(nn.Linear(12, 3), nn.BatchNorm1d(3))
    with pytest.raises(InvalidInput, match="layer '1' keeps statistics of past batches"):
        local_update(model, cross_entropy, records(), terms_of())


def test_a_model_that_needs_a_whole_batch_is_refused() -> None:
    model = nn.Sequential(nn.Linear(12, 3), nn.BatchNorm1d(3, track_running_stats=False))
    with pytest.raises(InvalidInput, match="does not run record by record"):
        local_update(model, cross_entropy, records(), terms_of())


def test_terms_that_do_not_say_how_to_train_are_refused() -> None:
    with pytest.raises(InvalidInput, match="do not say how a node trains"):
        local_update(network(), cross_entropy, records(), Terms.of(NOISE))


# Whether the reply was made by it


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_what_was_made_is_what_may_leave() -> None:
    model = network()
    before = state(model)
    with watched() as made:
        update = local_update(model, cross_entropy, records(), terms_of())
    layout = Layout.of(model)
    torch.testing.assert_close(only_made(made, layout, before, state(model)), update)
    with pytest.raises(InvalidInput, match="one call of local_update, got 0"):
        only_made([], layout, before, state(model))
    with pytest.raises(InvalidInput, match="one call of local_update, got 2"):
        only_made(made * 2, layout, before, state(model))
    moved = {**state(model), "bias": model.state_dict()["bias"] + 1e-6}
    with pytest.raises(InvalidInput, match="'bias' of the reply is not what local_update left"):
        only_made(made, layout, before, moved)
    with pytest.raises(InvalidInput, match="another 'bias' than the server sent"):
        only_made(made, layout, {**before, "bias": before["bias"] + 1.0}, state(model))


def test_arrays_that_are_no_parameters_must_stay_and_count_as_zero() -> None:
    model = network()
    model.register_buffer("table", torch.ones(2))
    before = state(model)
    with watched() as made:
        update = local_update(model, cross_entropy, records(), terms_of())
    layout = Layout(("table", "weight", "bias"), ((2,), (3, 12), (3,)))
    sent = only_made(made, layout, before, state(model))
    torch.testing.assert_close(sent, torch.cat([torch.zeros(2), update]))
    with pytest.raises(InvalidInput, match="'table' of the reply is not what"):
        only_made(made, layout, before, {**state(model), "table": torch.zeros(2)})


def test_nothing_is_watched_outside() -> None:
    with watched() as made:
        pass
    local_update(network(), cross_entropy, records(), terms_of())
    assert made == []
