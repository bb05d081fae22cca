"""One guess a game: reconstructions by nearness, beliefs by their sum, nothing known by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from tests.game.playing.small_observer import observer, scenario

from trilemma.attacks import KnowledgeLevel, Reconstructions, View, get
from trilemma.game.playing.guesses import play


@dataclass(frozen=True)
class Told:
    """Returns for each view what the test says: inputs, or log probabilities."""

    inputs: Sequence[torch.Tensor]
    beliefs: Sequence[torch.Tensor] | None = None
    broken: bool = False
    name: str = "told"
    knows: KnowledgeLevel = "nothing"
    readings: Sequence[Exact | None] | None = None

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        count = len(views)
        inputs = torch.stack(list(self.inputs[:count]))
        return Reconstructions(
            inputs,
            None,
            torch.zeros(count),
            torch.full((count,), self.broken),
            None if self.beliefs is None else torch.stack(list(self.beliefs[:count])),
            readings=self.readings,
        )


def test_a_reconstruction_of_the_tagged_record_wins() -> None:
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(5)]
    views = seen.views(games)
    exact = [seen.arena.pool.inputs[game.sought][None] + 0.01 for game in games]
    found = play(seen, games, views, Told(exact), restarts=1, seed=0)
    assert found.correct.all()
    torch.testing.assert_close(found.shown, torch.cat(exact))
    wrong = [
        seen.arena.pool.inputs[game.candidate_set[(game.target + 1) % 5]][None] for game in games
    ]
    assert not play(seen, games, views, Told(wrong), restarts=1, seed=0).correct.any()


@dataclass(frozen=True)
class Exact:
    """Fits one input better than all others."""

    best: torch.Tensor

    def log_likelihood(self, inputs: torch.Tensor) -> torch.Tensor:
        return -(inputs - self.best).flatten(1).square().sum(1)


def test_what_was_read_of_single_inputs_decides_where_there_is_something() -> None:
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(5)]
    views, pool = seen.views(games), seen.arena.pool.inputs
    near = [pool[game.candidate_set[(game.target + 1) % 5]][None] for game in games]

    exact = [Exact(pool[game.sought]) for game in games]
    assert not play(seen, games, views, Told(near), restarts=1, seed=0).correct.any()
    some = Told(near, readings=[*exact[:3], None, None])
    found = play(seen, games, views, some, restarts=1, seed=0)
    assert found.correct.tolist() == [True] * 3 + [False] * 2
    torch.testing.assert_close(found.shown, torch.cat(near))


def test_a_game_whose_attack_broke_down_counts_as_won() -> None:
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(3)]
    wrong = [seen.arena.pool.inputs[game.candidate_set[game.target - 1]][None] for game in games]
    found = play(seen, games, seen.views(games), Told(wrong, broken=True), restarts=1, seed=0)
    assert found.correct.all()
    assert found.failed.all()


def test_beliefs_add_up_over_the_rounds_of_one_game() -> None:
    """Three faint hints for the target record outweigh one strong one for another."""
    seen = observer(scenario(sizes=(80, 80, 80)), rounds=60)
    games = [seen.arena.draw(number, 3) for number in range(12)]
    views = seen.views(games)
    beliefs, inputs, won = [], [], []
    for game, view in zip(games, views, strict=True):
        count = len(game.candidate_set)
        for place, _ in enumerate(view):
            scores = torch.zeros(count)
            scores[game.target if place else game.target - 1] = 1.0 if place else 1.5
            beliefs.append(scores)
            inputs.append(torch.zeros(1, 6))
        won.append(len(view) >= 3)
    found = play(seen, games, views, Told(inputs, beliefs), restarts=1, seed=0)
    held = [bool(view) for view in views]
    for right, expected, some in zip(found.correct.tolist(), won, held, strict=True):
        if some:
            assert right == expected
    assert any(won)


def test_checkpoints_pick_by_the_rounds_seen_so_far() -> None:
    seen = observer(scenario(sizes=(80, 80, 80)), rounds=60)
    games = [seen.arena.draw(number, 3) for number in range(12)]
    views = seen.views(games)
    beliefs = []
    for game, view in zip(games, views, strict=True):
        for _ in view:
            scores = torch.zeros(len(game.candidate_set))
            scores[game.target] = 5.0
            beliefs.append(scores)
    told = Told([torch.zeros(1, 6)] * len(beliefs), beliefs)
    found = play(seen, games, views, told, restarts=1, seed=0, checkpoints=(10, 60))
    first = [bool(view) and view[0].round < 10 for view in views]
    assert found.after[60].tolist() == found.correct.tolist()
    for right, early in zip(found.after[10].tolist(), first, strict=True):
        assert right or not early
    assert sum(found.after[10].tolist()) < sum(found.after[60].tolist())


@pytest.mark.parametrize(
    ("rounds", "right"),
    [
        ([(0.3, 0.9), (0.3, 0.2)], True),  # near in both rounds, not nearest in one
        ([(0.2, 0.9)], True),
        ([(0.3, 0.001), (0.3, 0.9)], False),  # a round that shows a record clearly decides
        ([(0.3, 0.001)] + 6 * [(0.3, 0.9)], True),
        ([(0.5, 0.0), (1e-6, 0.5)], False),  # as if it were the record itself
    ],
)
def test_rounds_share_the_record(rounds: list[tuple[float, float]], right: bool) -> None:
    """Distances of the target record and of another one, nearer than the rest, by round."""
    near: list[torch.Tensor] = []

    def distance(made: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        table = torch.full((len(made), len(candidates)), 2.0)
        for column, item in enumerate(near):
            table[:, (candidates == item).all(1)] = made[:, column, None]
        return table

    seen = observer(replace(scenario(), distance=distance), rounds=60)
    games = [seen.arena.draw(number, 3) for number in range(20)]
    game, views = next(pair for pair in zip(games, seen.views(games), strict=True) if pair[1])
    near += list(seen.arena.pool.inputs[game.candidate_set[[game.target, game.target - 1]]])
    made = [torch.tensor([[*item, 0.0, 0.0, 0.0, 0.0]]) for item in rounds]
    found = play(seen, [game], [views[:1] * len(rounds)], Told(made), restarts=1, seed=0)
    assert bool(found.correct[0]) == right
    assert int(found.chosen[0]) == (game.target - (not right)) % len(game.candidate_set)
    clearest = min(made, key=lambda each: float(each[0, int(not right)]))
    torch.testing.assert_close(found.shown[0], clearest[0])


def test_a_record_that_no_round_holds_is_guessed() -> None:
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(400)]
    found = play(seen, games, [[] for _ in games], get("dlg"), restarts=1, seed=0)
    kappa = seen.arena.claim.kappa
    assert binomtest(int(found.correct.sum()), 400, kappa).pvalue > 1e-3


@pytest.mark.parametrize("attack", ["gaussian-posterior", "exact-posterior"])
def test_the_blind_control_is_the_blind_rate(attack: str) -> None:
    """Of a target that is drawn once the rounds are over no attack can know anything."""
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(100)]
    views, draw = seen.views(games), np.random.default_rng(0)
    late = [replace(game, target=int(draw.integers(len(game.candidate_set)))) for game in games]
    found = play(seen, late, views, get(attack), restarts=1, seed=0)
    kappa = seen.arena.claim.kappa
    assert binomtest(int(found.correct.sum()), 100, kappa).pvalue > 1e-3
    found = play(seen, games, views, get(attack), restarts=1, seed=0)
    seen_it = binomtest(int(found.correct.sum()), 100, kappa, alternative="greater")
    assert seen_it.pvalue < 1e-6, "with the record in it, the same attack sees it"


def test_a_reconstruction_of_what_is_common_is_no_find() -> None:
    """A guess near many candidates speaks less for one of them than a rare guess a bit off."""
    seen = observer(scenario())
    game = seen.arena.draw(0, 3)
    pool = seen.arena.pool.inputs[torch.from_numpy(game.candidate_set)]
    place = (game.target + 1) % len(pool)
    crowd = pool.mean(0) + 0.3 * (pool[place] - pool.mean(0))
    distance = (pool - crowd).square().mean(1)
    far = pool[game.target] + 1.05 * distance.min().sqrt() * torch.eye(6)[0] * 6**0.5
    found = play(
        seen, [game], seen.views([game]), Told([torch.stack([crowd, far])]), restarts=1, seed=0
    )
    alone = play(seen, [game], seen.views([game]), Told([crowd[None]]), restarts=1, seed=0)
    assert not bool(alone.correct)
    assert bool(found.correct)


@dataclass(frozen=True)
class Linking:
    """Finds the target record only where it is given at least three views of a training."""

    truth: dict[int, torch.Tensor]
    name: str = "linking"
    knows: KnowledgeLevel = "nothing"
    links: bool = True

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        names = [view.training for view in views]
        made = [
            self.truth[id(view.observation)] + (0.0 if names.count(view.training) >= 3 else 50.0)
            for view in views
        ]
        count = len(views)
        return Reconstructions(
            torch.stack(made)[:, None], None, torch.zeros(count), torch.zeros(count).bool()
        )


def test_an_attack_that_links_rounds_sees_no_later_ones() -> None:
    seen = observer(scenario(sizes=(80, 80, 80)), rounds=60)
    games = [seen.arena.draw(number, 3) for number in range(12)]
    views = seen.views(games)
    truth = {
        id(view.observation): seen.arena.pool.inputs[game.sought]
        for game, own in zip(games, views, strict=True)
        for view in own
    }
    found = play(seen, games, views, Linking(truth), restarts=1, seed=0, checkpoints=(30, 60))
    enough = [sum(view.round < 30 for view in own) >= 3 for own in views]
    late = [len(own) >= 3 and not early for own, early in zip(views, enough, strict=True)]
    assert any(enough)
    assert any(late)
    for right, early in zip(found.after[30].tolist(), enough, strict=True):
        assert right or not early
    missed = [right for right, then in zip(found.after[30].tolist(), late, strict=True) if then]
    assert not all(missed)
    for right, own in zip(found.correct.tolist(), views, strict=True):
        assert right or len(own) < 3
    assert found.after[60].tolist() == found.correct.tolist()


def test_a_linked_training_has_one_number_whichever_games_are_beside_it() -> None:
    seen = observer(scenario(sizes=(80, 80, 80)), rounds=60)
    games = [seen.arena.draw(number, 3) for number in range(6)]
    views = seen.views(games)
    heard: list[set[tuple[int | None, int]]] = []

    @dataclass(frozen=True)
    class Listening(Linking):
        def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
            heard.append({(view.training, view.round) for view in views})
            assert len(heard[-1]) == len(views), "no two views share their number"
            return super().__call__(views, restarts=restarts, seed=seed)

    truth = {id(view.observation): torch.zeros(6) for own in views for view in own}
    for part in (slice(None), slice(2, 4)):
        attack = Listening(truth)
        play(seen, games[part], views[part], attack, restarts=1, seed=0, checkpoints=(30, 60))
    assert heard[1]
    assert heard[1] < heard[0]
