"""A model and its loss as pure functions of flat weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from trilemma.updates import Layout

__all__ = ["Loss", "Task"]

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Task:
    """A model's architecture and loss as pure functions of flat weights [m].

    `loss(outputs, targets)` is the mean over the batch. `classes` is None for regression. Buffers
    (BatchNorm statistics in eval mode) are constants taken from the module.
    """

    model: torch.nn.Module
    loss: Loss
    classes: int | None
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", Layout.of(self.model))

    def outputs(self, weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The model's outputs [S, ...] at flat weights [m] for inputs [S, ...]."""
        # Attention's fused kernels have no second derivative, which attacks need.
        with sdpa_kernel(SDPBackend.MATH):
            outputs: torch.Tensor = functional_call(
                self.model, self.layout.unflatten(weights), (inputs,)
            )
        return outputs

    def mean_loss(
        self, weights: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """Mean loss at flat weights; targets are what `loss` takes, or soft labels [S, classes].

        Soft labels weigh the loss of each class, Σ_c y_c · loss(outputs, c): for cross-entropy
        that is its own soft form, and it works for any loss over class indices.
        """
        outputs = self.outputs(weights, inputs)
        if self.classes is None or not targets.is_floating_point():
            return self.loss(outputs, targets)
        if self.loss is cross_entropy or isinstance(self.loss, torch.nn.CrossEntropyLoss):
            return self.loss(outputs, targets)  # its own soft form, and much faster

        def one(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return self.loss(output[None], label[None])

        labels = torch.arange(self.classes, device=outputs.device)
        table = vmap(vmap(one, (None, 0)), (0, None))(outputs, labels)
        return (targets * table).sum() / inputs.shape[0]
