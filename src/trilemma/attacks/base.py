"""What an attack is: views of many independent units in, reconstructions out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task
from trilemma.observations import Observation

__all__ = ["Attack", "InputSpec", "Reconstructions", "View", "common_view"]


@dataclass(frozen=True)
class InputSpec:
    """Shape of one record's input and the range [low, high] of its entries."""

    shape: tuple[int, ...]
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.shape or any(size < 1 for size in self.shape):
            raise InvalidInput(f"an input's shape must have positive sizes, got {self.shape}.")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"inputs must lie in a finite range low < high, got [{self.low}, {self.high}]; "
                f"rescale the data."
            )

    @property
    def size(self) -> int:
        """Number of entries of one record's input."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class View:
    """All that an attacker has of one unit: the public task and weights [m], and what it read."""

    task: Task
    weights: torch.Tensor
    observation: Observation
    local_training: LocalTraining
    input_spec: InputSpec

    def __post_init__(self) -> None:
        size = self.task.layout.size
        for name, vector in (("weights", self.weights), ("update", self.observation.update)):
            if tuple(vector.shape) != (size,):
                raise InvalidInput(
                    f"the view's {name} must be a flat vector of the model's {size} "
                    f"coordinates, got shape {tuple(vector.shape)}."
                )

    @property
    def records(self) -> int:
        """Number of records behind the observation: clients times records a client."""
        return self.observation.clients * self.local_training.unit_size


@dataclass(frozen=True, eq=False)
class Reconstructions:
    """What an attack found for N units of S records each.

    inputs [N, S, *shape], clamped to the range; labels [N, S] class indices (or regression
    targets [N, S, ...]; None where an attack does not tell); loss [N], the matching loss of the
    chosen restart; failed [N], true where every restart diverged. Records come in no order.
    """

    inputs: torch.Tensor
    labels: torch.Tensor | None
    loss: torch.Tensor
    failed: torch.Tensor


@runtime_checkable
class Attack(Protocol):
    """An attack on a batch of independent units that share task, local training and shapes."""

    @property
    def name(self) -> str: ...

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions: ...


def common_view(views: Sequence[View]) -> View:
    """The first view, after checking that the views of one call form one batch."""
    if not views:
        raise InvalidInput("an attack needs at least one view.")
    first = views[0]
    for view in views[1:]:
        if (
            view.task is not first.task
            or view.local_training != first.local_training
            or view.input_spec != first.input_spec
            or view.observation.clients != first.observation.clients
            or view.observation.clip != first.observation.clip
        ):
            raise InvalidInput(
                "the views of one call must share task, local training, input range, clip norm "
                "and number of clients; attack the others in a call of their own."
            )
    return first
