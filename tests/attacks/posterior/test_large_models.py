from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.attacks.posterior.lining_up import Game, beliefs
from torch import nn

from trilemma.attacks import Attack, GaussianPosterior
from trilemma.attacks.posterior import gaussian
from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.large_models import Read, drawn_batches, whitening
from trilemma.attacks.posterior.posterior_inputs import Batch, held_at_once
from trilemma.attacks.posterior.turned_axes import Axes
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, Task, Way
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.scenarios.digits import digits
from trilemma.scenarios.text import text

ATTACK: Attack = GaussianPosterior()


def game(games: int, protection: str, scenario: Scenario | None = None, steps: int = 20) -> Game:
    """Sentences as candidates, updates of a transformer with 93,252 parameters; or another's."""
    arena, made = Arena.of(scenario or text(), rounds=1), parse_protection(protection)
    seen = Observer(arena, made, Adversary.SERVER, "candidates", 0, steps=steps, population=120)
    drawn = [arena.draw(number, 0) for number in range(games)]
    target = torch.tensor([item.target for item in drawn])
    return Game([views[0] for views in seen.views(drawn)], target)


def test_reading_some_coordinates_tells_as_much_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    played = game(4, "randomization:variance=0.003")
    some = beliefs(ATTACK, played.views)
    monkeypatch.setattr(gaussian, "are_many", lambda _: False)
    full = beliefs(ATTACK, played.views)
    rows = torch.arange(4)
    told, known = some[rows, played.target], full[rows, played.target]
    assert bool((told > -3).any())
    assert float((told - known).mean()) > -0.8


def test_the_table_is_that_of_what_is_read() -> None:
    view = game(1, "none").views[0]
    knows = view.knowledge
    assert knows.population is not None
    assert knows.candidate_set is not None
    read = Read.of(
        view.task,
        [view.weights[None]],
        view.observation.update[None],
        torch.ones_like(view.weights[None]),
        Batch(knows.population.inputs, knows.population.labels, True),
        Batch(knows.candidate_set.inputs, knows.candidate_set.labels, True),
        view.local_training,
        seed=0,
    )
    own, noise = torch.tensor([0.1]), torch.tensor([0.2])
    table = read.table(torch.ones(1), own, noise, torch.ones(1))
    rows = read.population[0].double()
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
    assert held_at_once(2**23, like) == 2**28
    assert held_at_once(2**30, like) == 2**30


def deep() -> Scenario:
    """Digits through nine layers of BatchNorm, one after the other."""
    layers: list[nn.Module] = [nn.Conv2d(1, 6, 3, 2, 1)]
    for _ in range(8):
        layers += [nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, 1, 1)]
    layers += [nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 10)]
    ready, model = digits(clients=4), nn.Sequential(*layers)
    parts = (nn.functional.cross_entropy, ready.records, ready.test_records)
    return Scenario(model, *parts, LocalTraining(batch=8))


def test_batches_are_simulated_where_many_layers_normalise_them() -> None:
    """With each record normalised by itself, 1 of these 10 is solved; blind is 1 in 100."""
    assert game(10, "none", deep(), steps=5).solved(ATTACK) >= 5


def test_contributions_are_fitted_to_what_batches_send() -> None:
    draw = torch.Generator().manual_seed(0)
    population, candidates = (torch.randn(n, 6, generator=draw) for n in (40, 3))
    rows, tensors = drawn_batches(40, 4, 0), torch.tensor([0, 0, 0, 0, 11, 11])
    assert rows.shape == (96, 4)
    assert rows.min() >= 0
    assert rows.max() < 40
    assert torch.bincount(rows.flatten()).float().var() > 3, "independent draws, no permutations"
    factor = torch.tensor([0.5, 0.5, 0.5, 0.5, 2.0, 2.0])
    error = 0.01 * torch.randn(96, 6, generator=draw)
    sent = 7 + factor * (population[rows].mean(1) - population.mean(0)) + error
    read = Read(torch.zeros(1, 1, 6), population[None], candidates[None])
    made = read.fitted(rows, sent, tensors)
    expected = sent.mean(0) + factor * (candidates - population.mean(0))
    assert torch.allclose(made.candidates[0], expected, atol=0.03)
    assert torch.allclose(made.population[0].mean(0), sent.mean(0), atol=1e-5)
    assert made.left is not None
    assert torch.allclose(made.left, error - error.mean(0), atol=0.01)


def test_what_batches_leave_is_whitened() -> None:
    draw = torch.Generator().manual_seed(1)
    rows, vectors = (torch.randn(n, 9, generator=draw, dtype=torch.float64) for n in (4, 5))
    made = whitening(3 * rows)(vectors)
    dense = torch.eye(9, dtype=torch.float64) + 9 * rows.T @ rows / 4
    assert torch.allclose(made @ made.T, vectors @ torch.linalg.inv(dense) @ vectors.T)


@pytest.mark.parametrize("normalised", [True, False])
def test_a_message_of_no_coordinate_tells_nothing(normalised: bool) -> None:
    view = game(1, "none", deep() if normalised else None, steps=2).views[0]
    nothing = torch.zeros_like(view.weights, dtype=torch.bool)
    sent = replace(view.observation, update=torch.zeros_like(view.weights), known=nothing)
    found = beliefs(ATTACK, [replace(view, observation=sent)])
    assert torch.allclose(found.exp(), torch.full_like(found, 1 / found.shape[1]))


@pytest.mark.parametrize("kind", ["vmapped", "looped"])
def test_clipped_records_are_read_as_if_their_gradients_were_written_out(kind: Any) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    task = Task(model, nn.functional.cross_entropy, 3, Way(kind))
    weights = task.layout.flatten(dict(model.named_parameters())).detach()[None]
    inputs, labels = torch.randn(12, 1, 8, 8), torch.randint(0, 3, (12,))
    inputs[7, 0, 0, 0] = torch.inf
    training = LocalTraining(batch=4, record_clip=0.5)
    whole = contributions(task, [weights], Batch(inputs, labels, True), training)[0]
    assert bool((whole.norm(dim=1)[:7] < 0.501).all())
    assert not whole[7].any()
    axes = Axes.of(task.layout, whole - whole.mean(0), torch.ones(task.layout.size))
    read = contributions(task, [weights], Batch(inputs, labels, True), training, axes=axes)[0]
    expected = axes.read(torch.split(whole, list(task.layout.sizes), 1))
    assert torch.allclose(read, expected, atol=1e-6)


def test_a_huge_gradient_is_read_as_long_as_it_is_clipped_to() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    task = Task(model, lambda made, asked: (made - asked).square().mean(), 3, Way("vmapped"))
    weights = task.layout.flatten(dict(model.named_parameters())).detach()[None]
    inputs, wanted = torch.randn(4, 6), torch.randn(4, 3)
    inputs[1] *= 1e20
    batch, training = Batch(inputs, wanted, True), LocalTraining(batch=2, record_clip=0.5)
    whole = contributions(task, [weights], batch, training)[0]
    assert float(whole[1].norm()) == pytest.approx(0.5, rel=1e-5)
    axes = Axes.of(task.layout, torch.randn(20, 21), torch.ones(21))
    read = contributions(task, [weights], batch, training, axes=axes)[0]
    expected = axes.read(torch.split(whole, list(task.layout.sizes), 1))
    assert torch.allclose(read, expected, atol=1e-6)
