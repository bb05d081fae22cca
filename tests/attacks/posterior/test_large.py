from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.attacks.posterior.lining_up import Game, beliefs

from trilemma.attacks import Attack, GaussianPosterior
from trilemma.attacks.posterior import gaussian
from trilemma.attacks.posterior.large import Read
from trilemma.attacks.posterior.units import Batch, held_at_once
from trilemma.estimation.playing.games import Arena
from trilemma.estimation.playing.sights import Observer
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.scenarios.text import text

ATTACK: Attack = GaussianPosterior()


def game(games: int, protection: str) -> Game:
    """Line-ups of sentences, updates of a transformer with 93,252 parameters."""
    arena = Arena.of(text(), rounds=1)
    seen = Observer(
        arena, parse_protection(protection), Adversary.SERVER, "candidates", 0, population=120
    )
    drawn = [arena.draw(number, 0) for number in range(games)]
    tagged = torch.tensor([each.tagged for each in drawn])
    return Game([views[0] for views in seen.views(drawn)], tagged)


def test_reading_some_coordinates_tells_as_much_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    played = game(4, "randomization:variance=0.003")
    some = beliefs(ATTACK, played.views)
    monkeypatch.setattr(gaussian, "are_many", lambda _: False)
    full = beliefs(ATTACK, played.views)
    rows = torch.arange(4)
    told, known = some[rows, played.tagged], full[rows, played.tagged]
    assert bool((told > -3).any())
    assert float((told - known).mean()) > -0.7


def test_the_table_is_that_of_what_is_read() -> None:
    view = game(1, "none").views[0]
    knows = view.knowledge
    assert knows.population is not None
    assert knows.line_up is not None
    read = Read.of(
        view.task,
        [view.weights[None]],
        view.observation.update[None],
        torch.ones_like(view.weights[None]),
        Batch(knows.population.inputs, knows.population.labels, True),
        Batch(knows.line_up.inputs, knows.line_up.labels, True),
        view.local_training,
    )
    own, noise = torch.tensor([0.1]), torch.tensor([0.2])
    table = read.table(torch.ones(1), own, noise)
    rows = read.people[0].double()
    centred = rows - rows.mean(0)
    squares = centred.square().sum(0)
    unit = (0.1 * (squares + squares.mean() / len(rows)) / len(rows) + 0.2).rsqrt()
    plain = (centred * unit) @ (centred * unit).T
    assert torch.allclose(table.rows[0].double(), plain, atol=1e-4 * float(plain.amax()))
    gap = (read.update[0, 0].double() - rows.mean(0)) * unit
    assert float(table.anchor[0, 0, 0]) == pytest.approx(float(gap @ gap), rel=1e-3)


def test_a_cpu_holds_what_suits_its_cache_and_a_gpu_a_part_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OnGpu:
        device = torch.device("cuda")

        def element_size(self) -> int:
            return 4

    memory = SimpleNamespace(total_memory=2**33)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    like: Any = OnGpu()
    assert held_at_once(2**23, torch.ones(1)) == 2**23
    assert held_at_once(2**23, like) == 2**26
    assert held_at_once(2**30, like) == 2**30
