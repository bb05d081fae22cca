"""Distances of many games at once, against each game by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.game.playing.test_observer import scenario

from trilemma.beliefs.candidate_set import mean_squared
from trilemma.game.playing import candidate_distances
from trilemma.game.playing.candidate_distances import tables_of
from trilemma.game.playing.games import Arena


def by_hand(made: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    gaps = made.double().flatten(1)[:, None] - others.double().flatten(1)[None]
    return gaps.square().mean(2)


@pytest.mark.parametrize("room", [1, 150, 1 << 19], ids=["one by one", "few", "all"])
def test_many_games_at_once_are_each_by_itself(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_distances, "_HERE", room)
    arena = Arena.of(scenario(), rounds=1)
    candidate_sets = [arena.draw(number, 3).candidate_set for number in range(7)]
    pool = arena.pool.inputs
    made = torch.rand(7, 1, *pool.shape[1:], generator=torch.Generator().manual_seed(0))
    made[4, 0, 0] = torch.nan
    found = tables_of(arena, made, candidate_sets, None)
    for place, (table, candidate_set) in enumerate(zip(found, candidate_sets, strict=True)):
        if place == 4:
            assert torch.isinf(table).all()
            continue
        candidates = pool[torch.from_numpy(candidate_set)]
        assert torch.equal(table, mean_squared(made[place], candidates))
        torch.testing.assert_close(table, by_hand(made[place], candidates))


def test_line_ups_of_other_lengths_and_other_distances_go_one_by_one() -> None:
    made = scenario()
    arena = Arena.of(made, rounds=1)
    candidate_sets = [arena.draw(0, 3).candidate_set, arena.draw(1, 3).candidate_set[:3]]
    given = torch.rand(2, 1, *arena.pool.inputs.shape[1:])
    first, second = tables_of(arena, given, candidate_sets, None)
    assert (first.shape[1], second.shape[1]) == (len(candidate_sets[0]), 3)
    own = Arena.of(
        replace(made, distance=lambda a, b: 7.0 + torch.zeros(len(a), len(b))), rounds=1
    )
    assert all((table == 7).all() for table in tables_of(own, given, candidate_sets, None))


@pytest.mark.parametrize("known", [False, True], ids=["candidates", "public"])
def test_several_reconstructions_compete_by_how_common_each_is(known: bool) -> None:
    arena = Arena.of(scenario(), rounds=1)
    (candidate_set,) = [arena.draw(2, 3).candidate_set]
    candidates = arena.pool.inputs[torch.from_numpy(candidate_set)]
    public = arena.scenario.public_records.inputs
    made = torch.rand(1, 3, *candidates.shape[1:], generator=torch.Generator().manual_seed(1))
    (found,) = tables_of(arena, made, [candidate_set], public if known else None)
    near = by_hand(made[0], public if known else candidates).sort(1).values[:, :3].mean(1)
    torch.testing.assert_close(found, by_hand(made[0], candidates) / near[:, None])
