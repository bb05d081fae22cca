"""A small scenario and attacks whose outcome is known, for tests of what counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.attacks import KnowledgeLevel, Reconstructions, View
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, client_update

FEATURES, CLASSES = 6, 3


def small_scenario(batch: int = 1, clients: int = 2, size: int = 12, lr: float = 0.1) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    data = [
        TensorDataset(
            torch.rand(size, FEATURES, generator=draw),
            torch.randint(0, CLASSES, (size,), generator=draw),
        )
        for _ in range(clients + 1)
    ]
    training = LocalTraining(lr=lr, batch=batch)
    return Scenario(nn.Linear(FEATURES, CLASSES), cross_entropy, data[:-1], data[-1], training)


def _result(inputs: torch.Tensor, failed: torch.Tensor | None = None) -> Reconstructions:
    none = torch.zeros(len(inputs), dtype=torch.bool)
    return Reconstructions(
        inputs, None, torch.zeros(len(inputs)), none if failed is None else failed
    )


@dataclass(frozen=True)
class Division:
    """Exact for one record and a linear model: ∂L/∂W = g xᵀ and ∂L/∂b = g, so x = ∂W / ∂b."""

    name: str = "division"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        found = []
        for view in views:
            tensors = view.task.layout.unflatten(view.observation.update)
            row = int(tensors["bias"].abs().argmax())
            found.append((tensors["weight"][row] / tensors["bias"][row])[None])
        return _result(torch.stack(found).clamp(0, 1))


@dataclass(frozen=True)
class Backwards:
    """Tries every ordered batch of the client's records; returns the best one back to front."""

    pool: torch.Tensor
    labels: torch.Tensor
    name: str = "backwards"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        return _result(torch.stack([self._best(view) for view in views]))

    def _best(self, view: View) -> torch.Tensor:
        def distance(rows: tuple[int, ...]) -> float:
            index = torch.tensor(rows)
            update = client_update(
                view.task,
                view.weights,
                self.pool[index],
                self.labels[index],
                view.local_training,
            )
            return float((update - view.observation.update).square().sum())

        best = min(permutations(range(len(self.pool)), view.records), key=distance)
        # Both orders explain the update equally well; sort, so that the answer is one order.
        return self.pool[torch.tensor(sorted(best, reverse=True))]


@dataclass(frozen=True)
class Diverges:
    """Returns NaN, and says so or not."""

    says_so: bool
    name: str = "diverges"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        inputs = torch.full((len(views), views[0].records, FEATURES), float("nan"))
        return _result(inputs, torch.full((len(views),), self.says_so))


@dataclass(frozen=True)
class Spy:
    """Keeps what it saw; stops with Ctrl-C at a given call."""

    views: list[View] = field(default_factory=list, repr=False)
    calls: list[int] = field(default_factory=list, repr=False)
    stop_at: int | None = field(default=None, repr=False)
    name: str = "spy"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        self.calls.append(len(views))
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.views.extend(views)
        return Division()(views, restarts=restarts, seed=seed)


@dataclass(frozen=True)
class Useless:
    """Says the same whatever it sees."""

    name: str = "useless"
    knows: KnowledgeLevel = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        shape = (len(views), views[0].records, *views[0].input_spec.shape)
        return _result(torch.zeros(shape))
