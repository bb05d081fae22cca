"""One gradient for a round's mean, against the clients' own updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trilemma.federation import cohort_updates
from trilemma.federation.cohort_updates import Sending
from trilemma.game.playing.games import Arena, Batches, stacked
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining, client_update
from trilemma.scenarios import load_scenario


def round_of(training: LocalTraining, games: int = 3) -> tuple[Arena, torch.Tensor, list[Batches]]:
    scenario = replace(load_scenario("digits"), local_training=training)
    arena, draw = Arena.of(scenario, rounds=5), np.random.default_rng(1)
    made = [arena.batches(arena.draw(n, 0), draw, holds=True) for n in range(games)]
    return arena, fresh_weights(scenario, range(games)), made


def asked(arena: Arena, *, often: bool = False) -> Sending:
    training, pool = arena.scenario.local_training, arena.pool
    return Sending(arena.scenario.task, training, pool.inputs, pool.labels, often=often)


@pytest.mark.parametrize("small", [True, False])
def test_the_mean_is_the_mean_of_the_clients(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    arena, weights, made = round_of(LocalTraining(batch=4))
    if not small:
        monkeypatch.setattr(cohort_updates, "_SMALL", 0)
    computing, (batches, present) = asked(arena, often=True), stacked(made)
    assert present is None
    sent = computing.updates(weights, batches)
    shares = torch.rand(3, 10, generator=torch.Generator().manual_seed(0))
    found = computing.means(weights, batches, shares)
    assert found is not None
    assert torch.allclose(found, torch.einsum("uk,ukm->um", shares, sent), atol=1e-6)
    rows = torch.from_numpy(made[1].rows[7])
    alone = client_update(
        arena.scenario.task,
        weights[1],
        arena.pool.inputs[rows],
        arena.pool.labels[rows],
        arena.scenario.local_training,
    )
    assert torch.allclose(sent[1, 7], alone, atol=1e-6)


@pytest.mark.parametrize(
    "training",
    [
        LocalTraining("fedavg", batch=4, steps=2),
        LocalTraining(batch=4, record_clip=0.5),
        LocalTraining(batch=4, sampling="poisson"),
    ],
    ids=["several steps", "clipped records", "poisson"],
)
def test_other_trainings_are_computed_client_by_client(training: LocalTraining) -> None:
    arena, weights, made = round_of(training)
    computing, (rows, present) = asked(arena), stacked(made)
    assert computing.means(weights, rows, torch.full((3, 10), 0.1), present) is None
    assert computing.updates(weights, rows, present).shape == (3, 10, weights.shape[1])


def test_what_is_recorded_once_serves_other_weights_batches_and_numbers_of_games() -> None:
    arena, weights, made = round_of(LocalTraining(batch=4))
    shares, often, plain = torch.full((3, 10), 0.1), asked(arena, often=True), asked(arena)
    for some in (slice(None), slice(1, 3), slice(None)):
        for at in (weights[some], 2 * weights[some]):
            given = at, stacked(made[some])[0]
            assert torch.allclose(often.updates(*given), plain.updates(*given), atol=1e-6)
            means = (value.means(*given, shares[some]) for value in (often, plain))
            found, expected = (mean for mean in means if mean is not None)
            assert torch.allclose(found, expected, atol=1e-6)
        made = [made[2], made[0], made[1]]


def test_batches_of_other_widths_or_with_padding_have_no_common_mean() -> None:
    arena, weights, made = round_of(LocalTraining(batch=4))
    padded = replace(made[0], present=np.zeros_like(made[0].present))
    short = replace(made[0], rows=made[0].rows[:, :3], present=made[0].present[:, :3])
    for odd in (padded, short):
        batches = [odd, *made[1:]]
        computing, (rows, present) = asked(arena), stacked(batches)
        assert present is not None
        assert computing.means(weights, rows, torch.full((3, 10), 0.1), present) is None
        sent = computing.updates(weights, rows, present)
        whole = computing.updates(weights[1:], stacked(made[1:])[0])
        assert torch.allclose(sent[1:], whole, atol=1e-6)
