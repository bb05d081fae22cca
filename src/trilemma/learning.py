"""What a client computes: the task it learns and the update it sends, as pure functions.

The federation and every attack call the same `client_update`, so what is attacked is exactly
what is sent. Everything here runs under `torch.func` (vmap, grad, jvp).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from trilemma.errors import InvalidInput
from trilemma.updates import Layout

__all__ = ["LocalTraining", "Task", "client_update"]

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class LocalTraining:
    """What an update is.

    `fedsgd`: the gradient of the mean loss over `batch` records. `fedavg`: the weight change
    w_before - w_after of `steps` SGD steps at rate `lr`; step t uses records
    t·batch … (t+1)·batch - 1, counted modulo `records`, the number that the client holds in a
    round (by default one batch, used in every step).
    """

    algorithm: Literal["fedsgd", "fedavg"] = "fedsgd"
    lr: float = 0.1
    steps: int = 1
    batch: int = 1
    records: int | None = None

    def __post_init__(self) -> None:
        if self.algorithm not in ("fedsgd", "fedavg"):
            raise InvalidInput(f"algorithm must be 'fedsgd' or 'fedavg', got {self.algorithm!r}.")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise InvalidInput(f"lr (local learning rate) must be positive, got {self.lr}.")
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.algorithm == "fedsgd" and (
            self.steps > 1 or self.records not in (None, self.batch)
        ):
            raise InvalidInput(
                "fedsgd sends one gradient over one batch; for several steps or batches "
                "use algorithm='fedavg'."
            )
        if self.records is not None and self.records < self.batch:
            raise InvalidInput(
                f"records ({self.records}) must hold at least one batch ({self.batch})."
            )

    @property
    def unit_size(self) -> int:
        """S, the number of records behind one update."""
        return self.records or self.batch


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


def client_update(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    local_training: LocalTraining,
) -> torch.Tensor:
    """The flat update [m] that a client at `weights` [m] sends for its records [S, ...].

    Always points like a gradient: the server applies w ← w - step · update, with step = lr for
    FedSGD and 1 for FedAvg.
    """
    gradient: Callable[..., torch.Tensor] = grad(task.mean_loss)
    if local_training.algorithm == "fedsgd":
        return gradient(weights, inputs, targets)
    size = inputs.shape[0]
    current = weights
    for step in range(local_training.steps):
        start = step * local_training.batch
        rows = torch.arange(start, start + local_training.batch, device=inputs.device) % size
        current = current - local_training.lr * gradient(current, inputs[rows], targets[rows])
    return weights - current
