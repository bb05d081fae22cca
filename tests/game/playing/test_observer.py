"""What an adversary sees of a game is what the federation sends, weighed as it is deployed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tests.game.playing.small_observer import observer, scenario
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.round import Rounds
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.records.records import Records

SUM = "secret-sharing"


def plain_gradient(made: Scenario, weights: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
    """By autograd on a module of its own."""
    model = nn.Linear(6, 3)
    named = made.task.layout.unflatten(weights)
    with torch.no_grad():
        model.weight.copy_(named["weight"])
        model.bias.copy_(named["bias"])
    pool = made.pooled()
    loss = cross_entropy(model(pool.inputs[rows]), pool.labels[rows])
    parts = torch.autograd.grad(loss, [model.weight, model.bias])
    return torch.cat([part.reshape(-1) for part in parts])


def test_a_single_message_is_the_gradient_of_the_batch_that_holds_the_record() -> None:
    made = scenario()
    seen = observer(made)
    games = [seen.arena.draw(number, 3) for number in range(4)]
    for game, (view,) in zip(games, seen.views(games), strict=True):
        draw = Seeded(3).generator("round", game.number)
        rows = seen.arena.batches(game, draw, holds=True).rows[game.client]
        assert game.sought in rows
        expected = plain_gradient(made, view.weights, rows)
        torch.testing.assert_close(view.observation.update, expected, rtol=1e-4, atol=1e-6)


def test_what_is_seen_of_one_client_does_not_hold_the_others() -> None:
    """Of a large model and a long training they would fill the memory."""
    seen = observer(scenario(sizes=(80, 80, 80)), rounds=60)
    views = [view for own in seen.views([seen.arena.draw(n, 3) for n in range(4)]) for view in own]
    assert views
    for view in views:
        update = view.observation.update
        assert update.untyped_storage().nbytes() == update.numel() * update.element_size()


@pytest.mark.parametrize("equal", [False, True])
def test_a_sum_weighs_clients_as_it_is_deployed(equal: bool) -> None:
    """A client with most of the records would be seen far too faintly in an equal mean."""
    made = scenario(sizes=(30, 300, 30))
    seen = observer(made, SUM, recipe=Recipe(made.local_training, equal_weights=equal))
    game = seen.arena.draw(0, 3)
    view = seen.views([game])[0][0]
    draw = Seeded(3).generator("round", game.number)
    rows = seen.arena.batches(game, draw, holds=True).rows
    shares = np.full(3, 1 / 3) if equal else np.array([30, 300, 30]) / 360
    pairs = zip(shares, rows, strict=True)
    parts = [share * plain_gradient(made, view.weights, row) for share, row in pairs]
    torch.testing.assert_close(
        view.observation.update, torch.stack(parts).sum(0), rtol=1e-4, atol=1e-6
    )
    assert isinstance(view.observation.weights, tuple)
    own = [game.client, *(k for k in range(3) if k != game.client)]
    assert view.observation.weights == pytest.approx(shares[own])


@pytest.mark.parametrize("rounds", [1, 30])
def test_a_sum_is_of_the_fewest_clients_that_a_round_may_end_with(rounds: int) -> None:
    """Of ten, where seven may be deployed, a record would be seen behind too many others."""
    sizes = (80, 120, 100, 90, 84)
    made = scenario(sizes=sizes)
    seen = observer(made, SUM, rounds=rounds, threshold=3)
    games = [seen.arena.draw(number, 3) for number in range(8)]
    summed: list[int] = []
    for game, views in zip(games, seen.views(games), strict=True):
        for view in views:
            rest = view.knowledge.rest
            assert view.observation.clients == 3
            assert rest is not None
            assert rest.inputs.shape[0] == 3 * 4
            rows = [seen.arena.scenario.kinds[place] for place in _places(made, rest.inputs)]
            clients = np.searchsorted(np.cumsum(sizes), rows[1::4], side="right")
            assert clients[0] == game.client
            assert len(set(clients)) == 3
            shares = np.array(sizes)[clients] / np.array(sizes)[clients].sum()
            assert view.observation.weights == pytest.approx(shares)
            summed += list(clients[1:])
    assert set(summed) == set(range(5)), "whoever drops out"


def _places(made: Scenario, inputs: torch.Tensor) -> list[int]:
    return [int((made.pooled().inputs == item).all(1).nonzero()[0]) for item in inputs]


def test_the_law_of_the_others_is_fitted_on_all_public_records() -> None:
    made = scenario()
    many = Records(torch.rand(900, 6), torch.randint(0, 3, (900,)))
    game = observer(made).arena.draw(0, 3)
    for public in (made.test_records, many):
        seen = observer(replace(made, public=public), SUM, "candidates")
        (view,) = seen.views([game])[0]
        assert view.knowledge.population is not None
        own = {tuple(row) for row in view.knowledge.population.inputs.tolist()}
        assert own >= {tuple(row) for row in public.inputs.tolist()}


def test_a_whole_training_walks_as_a_plain_loop_does() -> None:
    made = scenario()
    seen = observer(made, rounds=30)
    games = [seen.arena.draw(number, 3) for number in range(5)]
    views = seen.views(games)
    assert sum(map(len, views)) > 0
    for game, found in zip(games, views, strict=True):
        weights = fresh_weights(made, [game.number], seed=3)[0]
        draw = Seeded(3).generator("training", game.number)
        held = []
        for holds in seen.arena.attendance(game, draw):
            batches = seen.arena.batches(game, draw, holds=holds)
            if batches.slot is not None:
                held.append(weights)
            parts = [
                size / 300 * plain_gradient(made, weights, row)
                for size, row in zip((80, 120, 100), batches.rows, strict=True)
            ]
            weights = weights - 0.5 * torch.stack(parts).sum(0)
        assert len(found) == len(held)
        for view, expected in zip(found, held, strict=True):
            torch.testing.assert_close(view.weights, expected, rtol=1e-3, atol=1e-5)


def test_no_game_is_trained_beyond_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def counting(self: Rounds, weights: torch.Tensor, *others: Any, **more: Any) -> Any:
        trained.append(len(weights))
        return means(self, weights, *others, **more)

    means: Any = Rounds.means
    monkeypatch.setattr(Rounds, "means", counting)
    seen = observer(scenario(sizes=(400, 400, 400)), rounds=30)
    games = [seen.arena.draw(number, 3) for number in range(12)]
    views = seen.views(games)
    assert all(views)
    assert trained == [len(games)] * (1 + max(found[-1].round for found in views))


def test_noise_reaches_what_is_seen_and_what_is_trained() -> None:
    made = scenario()
    clean, noisy = (
        observer(made, rounds=25),
        observer(made, "randomization:variance=0.04", rounds=25),
    )
    games = [clean.arena.draw(number, 3) for number in range(40)]
    differences, drifts = [], []
    for one, other in zip(clean.views(games), noisy.views(games), strict=True):
        for first, (a, b) in enumerate(zip(one, other, strict=True)):
            assert b.observation.noise is not None
            assert b.observation.noise.scale == pytest.approx(0.2)
            if first == 0:
                drifts.append((a.weights - b.weights).numpy())
                differences.append((a.observation.update - b.observation.update).numpy())
    assert np.std(differences) == pytest.approx(0.2, rel=0.1)  # weights differ a little, too
    assert np.std(drifts) > 0.05


def test_each_rung_knows_what_it_is_said_to_and_no_more() -> None:
    made = scenario()
    game = observer(made).arena.draw(0, 3)
    known = {
        knows: observer(made, SUM, knows).views([game])[0][0].knowledge
        for knows in ("nothing", "public", "candidates", "rest")
    }
    assert known["nothing"].public is None
    assert known["public"].public is not None
    assert known["public"].candidate_set is None
    assert known["candidates"].candidate_set is not None
    assert known["candidates"].rest is None
    assert known["rest"].rest is not None


def test_the_rest_does_not_hold_the_target() -> None:
    made = scenario()
    seen = observer(made, SUM)
    for number in range(12):
        game = seen.arena.draw(number, 3)
        known = seen.views([game])[0][0].knowledge
        assert known.rest is not None
        assert known.candidate_set is not None
        assert len(known.rest) == 12
        torch.testing.assert_close(known.rest.inputs[known.slot], known.candidate_set.inputs[0])
        target = known.candidate_set.inputs[game.target]
        if game.target:
            assert not (known.rest.inputs == target).all(1).any()


def test_a_curious_client_reads_the_sum_of_the_others() -> None:
    made = scenario()
    seen = observer(made, adversary=Adversary.CLIENT)
    view = seen.views([seen.arena.draw(0, 3)])[0][0]
    assert view.observation.clients == 2


def test_poisson_batches_and_record_clips_are_what_is_sent() -> None:
    made = scenario(sampling="poisson", record_clip=0.05)
    seen = observer(made)
    games = [seen.arena.draw(number, 3) for number in range(6)]
    for game, (view,) in zip(games, seen.views(games), strict=True):
        draw = Seeded(3).generator("round", game.number)
        batches = seen.arena.batches(game, draw, holds=True)
        rows = batches.rows[game.client][batches.present[game.client]]
        total = torch.zeros_like(view.weights)
        for row in rows:
            gradient = plain_gradient(made, view.weights, np.array([row]))
            total += gradient * min(1.0, 0.05 / float(gradient.norm()))
        torch.testing.assert_close(view.observation.update, total / 4, rtol=1e-4, atol=1e-6)


def test_batches_of_one_size_keep_no_participation_secret() -> None:
    with pytest.raises(InvalidInput, match="counts it, so that batches of sampling='fixed'"):
        observer(scenario(), rounds=30, participation="secret")
    observer(scenario(sampling="poisson"), rounds=30, participation="secret")


def test_a_training_of_cohorts_walks_as_a_plain_loop_and_shows_only_the_cohort() -> None:
    made = replace(scenario(), cohort=2)
    sizes = np.array((80, 120, 100))
    seen = observer(made, SUM, rounds=40)
    games = [seen.arena.draw(number, 3) for number in range(5)]
    views = seen.views(games)
    assert sum(map(len, views)) > 0
    for game, found in zip(games, views, strict=True):
        weights = fresh_weights(made, [game.number], seed=3)[0]
        draw = Seeded(3).generator("training", game.number)
        held = []
        for holds in seen.arena.attendance(game, draw):
            batches = seen.arena.batches(game, draw, holds=holds)
            shares = sizes[batches.clients] / sizes[batches.clients].sum()
            parts = [
                share * plain_gradient(made, weights, row)
                for share, row in zip(shares, batches.rows, strict=True)
            ]
            mean = torch.stack(parts).sum(0)
            if batches.slot is not None:
                held.append((weights, mean))
            weights = weights - 0.5 * mean
        assert len(found) == len(held)
        for view, (at, mean) in zip(found, held, strict=True):
            assert view.observation.clients == 2
            torch.testing.assert_close(view.weights, at, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(view.observation.update, mean, rtol=1e-3, atol=1e-5)


def test_who_is_not_told_the_rounds_still_sees_the_cohorts() -> None:
    made = replace(scenario(sampling="poisson"), cohort=2)
    seen = observer(made, "randomization:variance=1e-3", rounds=30, participation="secret")
    game = seen.arena.draw(0, 3)
    draw = Seeded(3).generator("training", 0)
    drawn = [holds is not None for holds in seen.arena.attendance(game, draw)]
    assert 0 < sum(drawn) < 30
    (views,) = seen.views([game])
    assert [view.round for view in views] == [n for n, there in enumerate(drawn) if there]


def test_full_batches_show_every_round_and_move_as_the_recipe_says() -> None:
    """All free records and the target; momentum and the falling step are the server's."""
    made = scenario((40, 40, 40), sampling="full", record_clip=0.2)
    recipe = Recipe(made.local_training, 2.0, server_decay=True, momentum=0.7, equal_weights=True)
    seen = observer(made, SUM, rounds=5, recipe=recipe)
    games = [seen.arena.draw(number, 3) for number in range(2)]
    pool, layout = made.pooled(), made.task.layout
    for game, views in zip(games, seen.views(games), strict=True):
        assert len(views) == 5
        used = np.append(np.flatnonzero(game.free.ravel()), game.sought)
        velocity = torch.zeros(layout.size)
        for number, view in enumerate(views):
            model = nn.Linear(6, 3)
            model.load_state_dict(layout.unflatten(view.weights))
            total = torch.zeros(layout.size)
            for x, y in zip(pool.inputs[used], pool.labels[used], strict=True):
                grads = torch.autograd.grad(
                    cross_entropy(model(x[None]), y[None]), list(model.parameters())
                )
                row = torch.cat([grad.flatten() for grad in grads])
                total += row * min(1.0, 0.2 / float(row.norm())) / 4 / 3
            assert torch.allclose(view.observation.update, total, atol=1e-6)
            velocity = 0.7 * velocity + total
            after = view.weights - 2.0 * (5 - number) / 5 * velocity
            if number < 4:
                assert torch.allclose(views[number + 1].weights, after, atol=1e-5)


def test_a_round_that_ends_with_fewer_clients_moves_by_their_mean() -> None:
    """Where clients' parts are told apart: divided by all that were asked, it would be shorter."""
    made = scenario((40, 60, 40), sampling="full", record_clip=0.2)
    thinned = "compression:keep=0.5,unbiased=false+secret-sharing"
    recipe = Recipe(made.local_training, 2.0)
    seen = observer(made, thinned, rounds=3, threshold=2, recipe=recipe)
    (views,) = seen.views([seen.arena.draw(0, 3)])
    assert [view.observation.clients for view in views] == [2, 2, 2]
    for before, after in pairwise(views):
        moved = (before.weights - after.weights) / 2.0
        assert torch.allclose(moved, before.observation.update, atol=1e-6)
        assert moved.norm() > 0.01
