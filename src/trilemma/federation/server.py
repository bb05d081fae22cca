"""The server's side of a recipe: where a training starts, and how the weights move each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import ServerTraining
from trilemma.learning import clipped_sums, traced
from trilemma.learning.forward_memory import RECORDED_AT_MOST, held_by_record

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.learning import Task
    from trilemma.records.records import Records

__all__ = ["Server"]


class Server:
    """Moves weights [U, m] of U trainings, that follow one recipe, side by side.

    `public` are records that belong to no client (None: there are none). Weights are those of the
    model whose layers are centred; the task (None: unknown) is needed for public records alone.
    """

    def __init__(
        self, task: Task | None, recipe: Recipe, rounds: int, public: Records | None = None
    ) -> None:
        if recipe.needs_public and public is None:
            raise InvalidInput(
                "this recipe starts or steps by public records, but there are none; pass public=, "
                "or leave warm_start and public_weight out."
            )
        self.task, self.recipe, self.rounds, self.public = task, recipe, rounds, public
        self._velocity: torch.Tensor | None = None
        self._average: torch.Tensor | None = None
        self._gradients: dict[float | None, Callable[..., torch.Tensor]] = {}

    def start(self, weights: torch.Tensor) -> torch.Tensor:
        """The weights [U, m] of the first round, from those that were drawn."""
        warm = self.recipe.warm_start
        if warm is None:
            return weights
        velocity = torch.zeros_like(weights)
        for _ in range(warm.steps):
            velocity = warm.momentum * velocity + self._public_gradients(weights)
            weights = weights - warm.lr * velocity
        return weights

    def step(self, weights: torch.Tensor, means: torch.Tensor, number: int) -> torch.Tensor:
        """The weights [U, m] after a round, by the means [U, m] of what clients sent in it."""
        recipe = self.recipe
        if share := recipe.public_weight:
            own = self._public_gradients(weights, recipe.local_training.record_clip)
            means = (1 - share) * means + share * own
        if recipe.momentum:
            kept = 0 if self._velocity is None else recipe.momentum * self._velocity
            means = self._velocity = kept + means
        step = ServerTraining(recipe.step, recipe.server_decay).step_in(number, self.rounds)
        after = weights - step * means
        if recipe.averaging:
            average = after if self._average is None else self._average
            self._average = torch.lerp(after, average, recipe.averaging)
        return after

    def trained(self, weights: torch.Tensor) -> torch.Tensor:
        """The model [U, m] of a training that stands at these weights."""
        return weights if self._average is None else self._average

    @property
    def memory(self) -> dict[str, torch.Tensor]:
        """What it remembers between rounds, by name; can be put back."""
        kept = {"velocity": self._velocity, "average": self._average}
        return {name: value for name, value in kept.items() if value is not None}

    @memory.setter
    def memory(self, kept: Mapping[str, torch.Tensor]) -> None:
        self._velocity, self._average = kept.get("velocity"), kept.get("average")

    def _public_gradients(self, weights: torch.Tensor, clip: float | None = None) -> torch.Tensor:
        """Mean gradients [U, m] of the public records, clipped one by one if there is a clip."""
        assert self.public is not None
        assert self.task is not None, "public records come with a model"
        task = self.task
        records = tuple(
            value.to(weights.device) for value in (self.public.inputs, self.public.labels)
        )

        def gradient(at: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if clip is None:
                gradient: torch.Tensor = task.way.grad(task.mean_loss)(at, x, y)
                return gradient
            shares = at.new_full((1, len(x)), 1 / len(x))
            return clipped_sums(task, at, x[None], y[None], shares, clip)[0]

        example = (weights[0], *records)
        with torch.no_grad():
            if clip not in self._gradients:
                gradient(weights[0], *(record[:1] for record in records))  # see what layers read
                held = held_by_record(task, weights[0], *(record[0] for record in records))
                recorded = clip is None or not weights.is_cuda  # there it is within
                recorded = recorded and len(records[0]) * held <= RECORDED_AT_MOST
                self._gradients[clip] = (
                    traced(("public", clip), task, gradient, example) if recorded else gradient
                )
            return torch.stack([self._gradients[clip](weight, *records) for weight in weights])
