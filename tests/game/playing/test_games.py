"""Games: exchangeable candidates, unused decoys, batches at the federation's own rate."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest, chi2_contingency, chisquare
from tests.game.playing.small_games import scenario
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.errors import InvalidInput
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining


def test_a_game_depends_on_its_number_and_seed_alone() -> None:
    arena = Arena.of(scenario(), rounds=1)
    one, again, other = arena.draw(3, 0), arena.draw(3, 0), arena.draw(4, 0)
    assert (one.client, one.target, one.candidate_set.tolist()) == (
        again.client,
        again.target,
        again.candidate_set.tolist(),
    )
    assert one.candidate_set.tolist() != other.candidate_set.tolist()


def test_every_client_and_every_place_is_drawn_as_often() -> None:
    """Clients that take turns would let a short test see the first ones only."""
    arena = Arena.of(scenario(), rounds=1, candidates=5)
    games = [arena.draw(number, 0) for number in range(600)]
    for counts in (Counter(g.client for g in games), Counter(g.target for g in games)):
        assert chisquare(list(counts.values())).pvalue > 1e-3
    assert len({game.client for game in games[:30]}) == 3


def test_the_candidates_are_the_clients_own_and_no_decoy_is_in_any_batch() -> None:
    for rounds in (1, 20):
        arena = Arena.of(scenario(), rounds=rounds)
        for number in range(20):
            game = arena.draw(number, 1)
            start = arena.starts[game.client]
            assert set(game.candidate_set) <= set(range(start, start + arena.sizes[game.client]))
            draw = np.random.default_rng(number)
            for holds in (True, False):
                batches = arena.batches(game, draw, holds=holds)
                used = set(batches.rows[batches.present])
                decoys = set(game.candidate_set) - {game.sought}
                assert not used & decoys
                assert (game.sought in used) == (batches.slot is not None)
                if holds:
                    assert batches.rows[game.client, batches.slot] == game.sought


def test_batches_have_their_size_and_no_record_twice() -> None:
    arena = Arena.of(scenario(batch=7), rounds=20)
    game = arena.draw(0, 0)
    draw = np.random.default_rng(0)
    for holds in (True, False):
        batches = arena.batches(game, draw, holds=holds)
        assert batches.rows.shape == (3, 7)
        assert batches.present.all()
        assert all(len(set(row)) == 7 for row in batches.rows)


def test_a_batch_alone_is_that_among_the_others() -> None:
    arena = Arena.of(replace(scenario(), cohort=2), rounds=1)
    for number in range(20):
        game = arena.draw(number, 0)
        whole, alone = (
            arena.batches(game, np.random.default_rng(number), holds=True, alone=alone)
            for alone in (False, True)
        )
        assert alone.clients.tolist() == [game.client]
        assert (len(whole.clients), alone.own, alone.slot) == (2, 0, whole.slot)
        assert alone.rows.tolist() == [whole.rows[whole.own].tolist()]
        assert alone.present.all()


def test_the_tagged_record_joins_at_the_original_rate() -> None:
    """q = S/n of all n records, although the decoys are set aside."""
    arena = Arena.of(scenario(), rounds=3000)
    joined = arena.attendance(arena.draw(0, 0), np.random.default_rng(5))
    assert binomtest(joined.count(True), 3000, 4 / 100).pvalue > 1e-3
    assert None not in joined  # every client is in every round


def simulated_training(
    draw: np.random.Generator, clients: int, cohort: int, records: int, batch: int, rounds: int
) -> tuple[bool | None, ...]:
    """How the rounds of one training stand to record 0 of client 0."""
    held: list[bool | None] = []
    for _ in range(rounds):
        if 0 not in draw.choice(clients, cohort, replace=False):
            held.append(None)
        else:
            held.append(bool(0 in draw.choice(records, batch, replace=False)))
    return tuple(held)


@pytest.mark.parametrize(
    ("cohort", "batch", "rounds"), [(3, 2, 3), (2, 2, 3), (1, 10, 3), (2, 5, 1)]
)
def test_games_are_the_trainings_that_use_the_record(cohort: int, batch: int, rounds: int) -> None:
    """Whole trainings are simulated, those that never use the record rejected."""
    made = replace(scenario((20,) * 3, batch=batch), cohort=cohort)
    arena = replace(Arena.of(made, rounds=2, candidates=4), claim=Claim(rounds, 4))
    game, draw = arena.draw(0, 0), np.random.default_rng(11)
    found = Counter(tuple(arena.attendance(game, draw)) for _ in range(8000))
    expected = Counter[tuple[bool | None, ...]]()
    while expected.total() < 8000:
        held = simulated_training(draw, 3, cohort, 20, batch, rounds)
        expected[held] += any(held)
    patterns = sorted(found | expected, key=str)
    common = [pattern for pattern in patterns if found[pattern] + expected[pattern] >= 10]
    rare = [pattern for pattern in patterns if pattern not in common]
    table = [
        [*(counts[item] for item in common), sum(counts[item] for item in rare)]
        for counts in (found, expected)
    ]
    assert all(any(item) for item in found)
    assert len(common) == 1 or chi2_contingency(np.array(table) + 0.5).pvalue > 1e-3


def test_no_game_is_empty_where_most_records_are_never_used() -> None:
    """As many records as Fashion-MNIST: of 150 rounds by 4 of 5,500 records, 10 % use one."""
    arena = Arena.of(scenario((5500,) * 10), rounds=150)
    draw = np.random.default_rng(7)
    held = [arena.attendance(arena.draw(number, 0), draw).count(True) for number in range(1000)]
    assert min(held) == 1
    distribution = binom(150, 4 / 5500)
    often = np.array(
        [distribution.pmf(1), distribution.pmf(2), distribution.sf(2)]
    ) / distribution.sf(0)
    counts = [held.count(1), held.count(2), sum(item > 2 for item in held)]
    assert chisquare(counts, 1000 * often).pvalue > 1e-3


def test_poisson_batches_draw_each_free_record_by_itself() -> None:
    arena = Arena.of(scenario(sampling="poisson"), rounds=50)
    game, draw = arena.draw(0, 0), np.random.default_rng(5)
    counts = np.array([arena.batches(game, draw, holds=False).present.sum(1) for _ in range(2000)])
    free = game.free.sum(1)
    expected = free * 4 / 100
    error = np.sqrt(free * 0.04 * 0.96 / 2000)
    assert (np.abs(counts.mean(0) - expected) < 4 * error).all()
    assert np.allclose(counts.var(0), free * 0.04 * 0.96, rtol=0.15)


def test_an_update_of_all_records_is_padded_where_decoys_left() -> None:
    arena = Arena.of(scenario(sizes=(40, 40), batch=40), rounds=1, candidates=5)
    game = arena.draw(0, 0)
    batches = arena.batches(game, np.random.default_rng(0), holds=True)
    assert batches.present[game.client].sum() == 40 - 4
    assert batches.present[1 - game.client].all()


def test_an_inserted_record_leaves_all_data_and_joins_one_client() -> None:
    arena = Arena.of(scenario(sizes=(30, 30, 30)), rounds=20)
    assert arena.claim.inserted
    for number in range(20):
        game = arena.draw(number, 0)
        lined = set(game.candidate_set)
        for client, start in enumerate(arena.starts):
            free = set((np.flatnonzero(game.free[client]) + start).tolist())
            assert not free & lined
        assert game.free[game.client].sum() <= arena.sizes[game.client] - 1


def test_exact_copies_stay_out_of_the_line_up_and_of_its_batches() -> None:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.rand(60, 6, generator=draw)
    inputs[30:] = inputs[:30]  # every record twice
    labels = torch.arange(60) % 30 % 3
    data = TensorDataset(inputs, labels)
    made = Scenario(nn.Linear(6, 3), cross_entropy, [data], data, LocalTraining(batch=2))
    arena = Arena.of(made, rounds=1)
    assert arena.claim.candidates == 29
    game = arena.draw(0, 0)
    assert len(set(arena.kinds[game.candidate_set])) == 29
    batches = arena.batches(game, np.random.default_rng(0), holds=True)
    assert batches.slot is not None
    others = np.delete(batches.rows[0], batches.slot)
    assert not set(arena.kinds[others]) & set(arena.kinds[game.candidate_set])


def test_outsiders_are_neither_candidates_nor_used() -> None:
    arena = Arena.of(scenario(), rounds=1)
    game = arena.draw(0, 0)
    used = np.arange(250, 260)
    found = arena.outsiders(game, used, 400, 0)
    assert len(found) == 30 + 300 - 97 - 2 * 3 * 4  # as many in every game
    assert len(arena.outsiders(arena.draw(1, 0), used[:2], 400, 0)) == len(found)
    flat = {tuple(row) for row in found.inputs.tolist()}
    for row in (*game.candidate_set, *used):
        assert tuple(arena.pool.inputs[int(row)].tolist()) not in flat
    assert len(arena.outsiders(game, used, 12, 0)) == 12


def test_a_line_up_larger_than_a_client_allows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="allow 26"):
        Arena.of(scenario(), rounds=20, candidates=60)


# Cohorts


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_a_cohort_is_drawn_evenly_and_a_record_joins_only_with_its_client(sampling: str) -> None:
    made = replace(scenario((100,) * 5, sampling=sampling), cohort=2)
    arena = Arena.of(made, rounds=4000)
    game, draw, rounds = arena.draw(0, 0), np.random.default_rng(5), 4000
    seen, joined = Counter[int](), 0
    for holds in arena.attendance(game, draw):
        batches = arena.batches(game, draw, holds=holds)
        assert batches.rows.shape[0] == len(batches.clients) == 2
        seen.update(batches.clients.tolist())
        there = batches.rows[batches.present]
        assert set(there // 100) <= set(batches.clients.tolist()), "only the cohort's records"
        assert (batches.own is not None) == (game.client in batches.clients) == (holds is not None)
        assert (game.sought in there) == (batches.slot is not None)
        joined += batches.slot is not None
    assert chisquare([seen[k] for k in range(5)]).pvalue > 1e-3
    assert binomtest(joined, rounds, 2 / 5 * 4 / 100).pvalue > 1e-3


def test_one_round_that_holds_the_record_has_its_client_in_the_cohort() -> None:
    arena = Arena.of(replace(scenario((100,) * 5), cohort=3), rounds=1)
    draw, others = np.random.default_rng(5), Counter[int]()
    for number in range(400):
        game = arena.draw(number, 0)
        batches = arena.batches(game, draw, holds=True)
        assert batches.own is not None
        assert batches.slot is not None
        assert batches.rows[batches.own, batches.slot] == game.sought
        others.update(((batches.clients - game.client) % 5).tolist())
    assert others[0] == 400
    assert chisquare([others[k] for k in range(1, 5)]).pvalue > 1e-3
