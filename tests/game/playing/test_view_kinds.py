"""What an attack does with a view is not decided by its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from tests.cli.own_scenario import small

from trilemma.attacks import View, get
from trilemma.attacks.base import Reconstructions
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.playing.view_kinds import find
from trilemma.observations import Adversary, Noise
from trilemma.protection.protection import Protection


def seen(count: int) -> list[View]:
    arena = Arena.of(small(), rounds=1)
    observer = Observer(arena, Protection(), Adversary.SERVER, "public", 0, steps=2)
    games = [arena.draw(number, 0) for number in range(count)]
    return [view for (view,) in observer.views(games)]


def thinned(view: View, missing: Sequence[int]) -> View:
    known = torch.ones_like(view.weights, dtype=torch.bool)
    known[list(missing)] = False
    return replace(view, observation=replace(view.observation, known=known))


@dataclass
class Noting:
    """Finds the first weight of each view, and notes which were together."""

    links: bool = False
    name: ClassVar[str] = "noting"
    knows: ClassVar[str] = "nothing"

    def __post_init__(self) -> None:
        self.calls: list[list[float]] = []

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        first = torch.stack([view.weights[:1] for view in views])
        self.calls.append(first[:, 0].tolist())
        return Reconstructions(
            *(first, None, first[:, 0], first[:, 0] > 9), readings=[None] * len(views)
        )


def test_views_of_one_kind_share_a_call_and_come_back_in_order() -> None:
    views = seen(5)
    last = views[0].weights.numel() - 1  # of the last layer's bias
    mixed = [
        *(views[0], thinned(views[1], [0]), views[2]),
        *(thinned(views[3], [last]), thinned(views[4], [])),
    ]
    attack, order = Noting(), [float(view.weights[0]) for view in mixed]
    found = find(attack, mixed, restarts=1, seed=0)  # type: ignore[arg-type]
    assert found.inputs[:, 0].tolist() == found.loss.tolist() == order
    assert found.readings == [None] * 5
    assert found.labels is None
    assert attack.calls == [[order[0], order[2], order[4]], [order[1]], [order[3]]]


def test_unlike_clients_are_a_kind_of_their_own() -> None:
    view = seen(1)[0]
    sums = [
        replace(view, observation=replace(view.observation, clients=2, weights=weights))
        for weights in (None, (0.5, 0.5), (0.3, 0.7))
    ]
    attack = Noting()
    find(attack, sums, restarts=1, seed=0)  # type: ignore[arg-type]
    assert list(map(len, attack.calls)) == [2, 1]


def test_a_training_that_is_linked_stays_whole() -> None:
    views = [replace(view, training=place // 2) for place, view in enumerate(seen(6))]
    views[1] = thinned(views[1], [0])
    views[4] = thinned(views[4], [0])
    attack = Noting(links=True)
    order = [float(view.weights[0]) for view in views]
    found = find(attack, views, restarts=1, seed=0)  # type: ignore[arg-type]
    assert found.loss.tolist() == order
    assert attack.calls == [[*order[:2], *order[4:]], order[2:4]]


@pytest.mark.parametrize("name", ["idlg", "inverting-gradients", "map"])
def test_a_neighbour_whose_bias_is_missing_changes_nothing(name: str) -> None:
    """Its labels are found jointly; those of the others are read off as before."""
    views = seen(3)
    last = views[0].weights.numel() - 1
    mixed = [views[0], thinned(views[1], [last]), views[2]]
    attack = get(name)
    alone = find(attack, [views[0], views[2]], restarts=1, seed=0)
    among = find(attack, mixed, restarts=1, seed=0)
    assert torch.equal(among.inputs[[0, 2]], alone.inputs)
    other = find(attack, [mixed[1]], restarts=1, seed=0)
    assert torch.equal(among.inputs[1], other.inputs[0])


@dataclass
class Believing(Noting):
    """Has a belief where all was read."""

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        found = super().__call__(views, restarts=restarts, seed=seed)
        if any(view.observation.known is not None for view in views):
            return found
        return replace(found, log_probability=torch.zeros(len(views), 4))


def test_who_tells_other_things_of_other_kinds_is_asked_about_all_at_once() -> None:
    views = seen(2)
    attack = Believing()
    assert find(attack, views, restarts=1, seed=0).log_probability is not None  # type: ignore[arg-type]
    mixed = [views[0], thinned(views[1], [0])]
    found = find(attack, mixed, restarts=1, seed=0)  # type: ignore[arg-type]
    assert found.log_probability is None
    assert len(attack.calls[-1]) == 2


def test_noise_is_a_kind() -> None:
    loud, quiet = seen(2)
    noisy = replace(loud, observation=replace(loud.observation, noise=Noise("gaussian", 0.1)))
    attack = Noting()
    find(attack, [noisy, quiet], restarts=1, seed=0)  # type: ignore[arg-type]
    assert list(map(len, attack.calls)) == [1, 1]


def test_each_norm_of_a_clip_is_a_kind() -> None:
    """A call has one norm: a clip that moves from round to round needs several."""
    views = seen(3)
    clipped = [
        replace(view, observation=replace(view.observation, clip=clip))
        for view, clip in zip(views, (0.5, 0.25, 0.5), strict=True)
    ]
    attack = Noting()
    find(attack, clipped, restarts=1, seed=0)  # type: ignore[arg-type]
    assert list(map(len, attack.calls)) == [2, 1]
