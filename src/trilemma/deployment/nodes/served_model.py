"""The server's side of a deployment, on a model's arrays: what `federation.server` computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server import Server
from trilemma.federation.server_parts import means_of
from trilemma.learning import Task, way_of
from trilemma.learning.modules import centred, shifted_biases
from trilemma.records.records import Dataset, Records
from trilemma.updates import Layout

if TYPE_CHECKING:
    from trilemma.federation.deployment_terms import Deployment
    from trilemma.learning.losses import Loss

__all__ = ["ServedModel"]

Tensors = Mapping[str, torch.Tensor]


class ServedModel:
    """Starts and moves a model, given as tensors by name, as a deployment says.

    `model`, `loss` and `public` records are needed where the server trains on records of its own,
    and must be those of the tuning. The model keeps its (W, b); where layers are centred, a step
    is taken in (W, b + W m), where clients clip and add noise.
    """

    def __init__(
        self,
        deployment: Deployment,
        model: torch.nn.Module | None = None,
        loss: Loss | None = None,
        public: Dataset | Records | None = None,
    ) -> None:
        server = deployment.server
        assert server is not None, "without a server's side there is no served model"
        self._rounds, self._origins, self._task = deployment.rounds, server.centring, None
        records = None
        if server.needs_public:
            if model is None or loss is None or public is None or server.public is None:
                raise InvalidInput(
                    "this deployment's server starts or steps by public records; pass the model, "
                    "its loss and these records: model=, loss= and public=."
                )
            records = Records.of(public, "the server's public records")
            server.public.require(records)
            self._task = _task(model, loss, records, deployment)
        self._server = Server(self._task, Recipe.of(deployment), deployment.rounds, records)

    @property
    def memory(self) -> dict[str, torch.Tensor]:
        """What it remembers between rounds."""
        return self._server.memory

    @memory.setter
    def memory(self, kept: Tensors) -> None:
        self._server.memory = kept

    def start(self, weights: Tensors) -> dict[str, torch.Tensor]:
        """The model of the first round."""
        layout = self._layout(weights)
        return self._plain(layout, self._server.start(self._centred(layout, weights))[0])

    def step(self, weights: Tensors, mean: Tensors, number: int) -> dict[str, torch.Tensor]:
        """The model after a round (0, 1, ...), by the mean of what clients sent in it."""
        layout = self._layout(weights)
        at = self._centred(layout, weights)
        moved = layout.flatten(dict(mean)).to(at)
        after = self._server.step(at, moved[None], number)
        if number + 1 == self._rounds:
            after = self._server.trained(after)
        return self._plain(layout, after[0])

    def _layout(self, weights: Tensors) -> Layout:
        if self._task is None:
            return Layout(
                tuple(weights), tuple(tuple(weight.shape) for weight in weights.values())
            )
        layout = self._task.layout
        own = dict(zip(layout.names, layout.shapes, strict=True))
        if own != {name: tuple(weight.shape) for name, weight in weights.items()}:
            raise InvalidInput(
                "the model= whose layers the server trains on public records has other parameters "
                "than the model that is sent; give both the same."
            )
        return layout

    def _centred(self, layout: Layout, weights: Tensors) -> torch.Tensor:
        """The weights [1, m] of the model whose layers are centred."""
        means = means_of(self._origins, weights)
        flat = layout.flatten({**weights, **shifted_biases(weights, means)})
        return (flat if flat.dtype == torch.float64 else flat.to(torch.float32))[None]

    def _plain(self, layout: Layout, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        named = layout.unflatten(weights)
        return {**named, **shifted_biases(named, means_of(self._origins, named), -1)}


def _task(model: torch.nn.Module, loss: Loss, records: Records, deployment: Deployment) -> Task:
    assert deployment.server is not None
    means = means_of(deployment.server.centring, dict(model.named_parameters()))
    task = Task(centred(model, means) if means else model, loss, None)
    if task.layout.size != deployment.parameters:
        raise InvalidInput(
            f"model= has {task.layout.size} parameters, but {deployment.parameters} were "
            "measured; deploy the model that was measured, or measure again."
        )
    some = records[torch.arange(2) % len(records)]
    return replace(task, way=way_of(task, some.inputs, some.labels, attacked=False))
