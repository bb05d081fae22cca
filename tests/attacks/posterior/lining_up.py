"""Units of digits with a candidate set each, every knowledge's knowledge and a known truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch.func import grad, vmap

from trilemma.attacks import Attack, Knowledge, View
from trilemma.entropy import Seeded
from trilemma.game.prepared_models import prepare_models
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Noise, Observation
from trilemma.records.range import InputSpec
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario

torch.set_num_threads(1)


@dataclass(frozen=True, eq=False)
class Game:
    """Views and the place [U] of the target record in each candidate set."""

    views: list[View]
    target: torch.Tensor

    def solved(self, attack: Attack) -> int:
        return int((guesses(attack, self.views) == self.target).sum())


def guesses(attack: Attack, views: list[View]) -> torch.Tensor:
    belief = attack(views, restarts=1, seed=0).log_probability
    assert belief is not None
    return belief.argmax(1)


def beliefs(attack: Attack, views: list[View]) -> torch.Tensor:
    belief = attack(views, restarts=1, seed=0).log_probability
    assert belief is not None
    return belief


@cache
def digits() -> Scenario:
    return load_scenario("digits")


def digit_game(
    units: int,
    variance: float,
    *,
    clients: int = 1,
    size: int = 100,
    keep: float | None = None,
    outsider: bool = False,
    seed: int = 0,
) -> Game:
    """Fresh models and batches of 4, `size` candidates of one client; noise a client.

    An `outsider` stands in the target record's place: a record that no candidate set holds.
    """
    scenario, source = digits(), Seeded(seed)
    weights = prepare_models(scenario, range(units), seed=seed)
    views, target = [], []
    for unit in range(units):
        draw = source.generator("unit", unit)
        first = int(draw.integers(10))
        own, batch = scenario.records[first], scenario.local_training.batch
        order = draw.permutation(len(own))
        drawn, outside, place = order[:size], order[size:], int(draw.integers(size))
        used = int(outside[-1]) if outsider else int(drawn[place])
        rows = [[(first, used)] + [(first, int(row)) for row in outside[: batch - 1]]]
        for step in range(1, clients):
            other = (first + step) % 10
            chosen = draw.permutation(len(scenario.records[other]))[:batch]
            rows.append([(other, int(row)) for row in chosen])
        flat = [place for client in rows for place in client]
        records = Records(
            torch.stack([scenario.records[client].inputs[row] for client, row in flat]),
            torch.stack([scenario.records[client].labels[row] for client, row in flat]),
        )
        candidate_set = own[torch.from_numpy(drawn)]
        sent = sum_of(scenario.task, weights[unit], records, scenario.local_training, clients)
        observation = shaken(sent, variance / clients, clients, keep, source.child("noise", unit))
        knowledge = Knowledge(
            scenario.test_records, candidate_set, None, standing(records, candidate_set, 0), 0
        )
        views.append(
            View(
                scenario.task,
                weights[unit],
                observation,
                scenario.local_training,
                scenario.input_spec,
                knowledge,
            )
        )
        target.append(place)
    return Game(views, torch.tensor(target))


def sum_of(
    task: Task, weights: torch.Tensor, records: Records, training: LocalTraining, clients: int
) -> torch.Tensor:
    size = training.unit_size
    parts = [slice(client * size, (client + 1) * size) for client in range(clients)]
    updates = [
        client_update(task, weights, records.inputs[part], records.labels[part], training)
        for part in parts
    ]
    return torch.stack(updates).mean(0)


def shaken(
    sent: torch.Tensor, variance: float, clients: int, keep: float | None, source: Seeded
) -> Observation:
    draw = source.torch_generator("draw")
    noise = torch.randn(len(sent), generator=draw, dtype=torch.float64).to(sent)
    known = None if keep is None else torch.rand(len(sent), generator=draw) < keep
    return Observation(
        sent + math.sqrt(variance) * noise,
        known,
        Noise("gaussian", math.sqrt(variance)) if variance else None,
        clients=clients,
    )


def standing(records: Records, candidate_set: Records, slot: int) -> Records:
    """The records with the first candidate in the sought one's place."""
    inputs, labels = records.inputs.clone(), records.labels.clone()
    inputs[slot], labels[slot] = candidate_set.inputs[0], candidate_set.labels[0]
    return Records(inputs, labels)


SMALL = InputSpec((6,), 0.0, 1.0)


def small_task(classes: int | None = 3) -> Task:
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, classes or 1)
    )
    if classes is None:
        return Task(model.double(), torch.nn.functional.mse_loss, None)
    return Task(model.double(), torch.nn.functional.cross_entropy, classes)


def small_records(count: int, source: Seeded, classes: int | None = 3) -> Records:
    """Records of 6 numbers that depend on their class, float64."""
    draw = source.torch_generator("records")
    inputs = torch.rand(count, 6, generator=draw, dtype=torch.float64)
    if classes is None:
        return Records(inputs, inputs.sum(1, keepdim=True))
    labels = torch.randint(0, classes, (count,), generator=draw)
    centres = torch.rand(classes, 6, generator=draw, dtype=torch.float64)
    return Records((inputs + centres[labels]) / 2, labels)


def small_view(
    seed: int,
    *,
    training: LocalTraining | None = None,
    clients: int = 1,
    weights: tuple[float, ...] | torch.Tensor | None = None,
    clip: float | None = None,
    noise: Noise | None = None,
    known: torch.Tensor | None = None,
    slot: int = 0,
    candidates: int = 7,
    population: int = 40,
    classes: int | None = 3,
    make: Callable[[int | None], Task] = small_task,
    task: Task | None = None,
) -> tuple[View, int]:
    """One unit of a small network and the place of its target record."""
    source, training = Seeded(seed), training or LocalTraining(batch=3)
    task = task or make(classes)
    draw = source.torch_generator("unit")
    model = torch.randn(task.layout.size, generator=draw, dtype=torch.float64) / 2
    records = small_records(clients * training.unit_size, source.child("rest"), classes)
    candidate_set = small_records(candidates, source.child("line-up"), classes)
    target = int(torch.randint(0, candidates, (1,), generator=draw))
    inputs, labels = records.inputs.clone(), records.labels.clone()
    inputs[slot], labels[slot] = candidate_set.inputs[target], candidate_set.labels[target]
    size, total = training.unit_size, torch.zeros_like(model)
    for client in range(clients):
        own = slice(client * size, (client + 1) * size)
        update = client_update(task, model, inputs[own], labels[own], training)
        if clip is not None:
            update = update * min(1.0, clip / float(update.norm()))
        share: Any = 1 / clients if weights is None else weights[client]
        total = total + share * update
    if noise is not None:
        normal = torch.randn(len(total), generator=draw, dtype=torch.float64)
        even = 2 * torch.rand(len(total), generator=draw, dtype=torch.float64) - 1
        total = total + noise.scale * (normal if noise.kind == "gaussian" else even)
    knowledge = Knowledge(
        small_records(population, source.child("public"), classes),
        candidate_set,
        None,
        standing(Records(inputs, labels), candidate_set, slot),
        slot,
    )
    observation = Observation(total, known, noise, weights, clip, clients)
    return View(task, model, observation, training, SMALL, knowledge), target


def explained(view: View, candidate: int) -> torch.Tensor:
    """The noise-free observation with a candidate in the sought record's place, by hand."""
    candidate_set, rest, slot = (
        view.knowledge.candidate_set,
        view.knowledge.rest,
        view.knowledge.slot,
    )
    assert candidate_set is not None
    assert rest is not None
    inputs, labels = rest.inputs.clone(), rest.labels.clone()
    inputs[slot], labels[slot] = candidate_set.inputs[candidate], candidate_set.labels[candidate]
    size, total = view.local_training.unit_size, torch.zeros_like(view.weights)
    for client in range(view.observation.clients):
        own = slice(client * size, (client + 1) * size)
        update = client_update(
            view.task, view.weights, inputs[own], labels[own], view.local_training
        )
        if view.observation.clip is not None:
            update = update * min(1.0, view.observation.clip / float(update.norm()))
        weights = view.observation.weights
        total = (
            total + (1 / view.observation.clients if weights is None else weights[client]) * update
        )
    return total.detach()


def record_gradients(view: View, records: Records) -> torch.Tensor:
    """Single records' gradients [n, m] at the view's model."""

    def one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = grad(view.task.mean_loss)(view.weights, x[None], y[None])
        return gradient

    gradients: torch.Tensor = vmap(one)(records.inputs, records.labels)
    return gradients


def with_population(view: View, records: Records) -> View:
    return replace(view, knowledge=replace(view.knowledge, population=records))
