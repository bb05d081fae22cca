"""Whether a model and a loss can be attacked at all: no hidden state, two honest derivatives."""

from __future__ import annotations

import copy
from typing import Final

import torch
from torch import nn
from torch.func import grad
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update

__all__ = ["check_stateless", "check_trainable", "first_line"]

_STEP: Final = 1e-6  # of the difference quotient, in double precision
_AGREE: Final = 1e-3


def check_stateless(model: nn.Module) -> None:
    """Refuse layers whose output depends on chance or on the rest of the batch."""
    for name, module in model.named_modules():
        random = isinstance(module, _DropoutNd) and module.p > 0
        if module.training and (random or isinstance(module, _BatchNorm)):
            raise InvalidInput(
                f"{type(module).__name__} ({name!r}) is in train mode, so the model is no "
                f"function of weights and record; call model.eval() first, or use GroupNorm."
            )


def check_trainable(
    task: Task, inputs: torch.Tensor, labels: torch.Tensor, local_training: LocalTraining
) -> None:
    """One unit's update [S, ...] must exist, be finite and have a derivative in the inputs."""
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    try:
        update = client_update(task, weights, inputs, labels, local_training)
    except Exception as error:
        raise InvalidInput(
            f"the update of the first batch cannot be computed: model and loss must run under "
            f"torch.func, without changing anything in place ({first_line(error)})."
        ) from error
    if not torch.isfinite(update).all():
        raise InvalidInput(
            "the update of the first batch contains NaN or infinity; check the loss and the "
            "scale of the inputs."
        )
    _check_second_derivative(task, weights, inputs, labels, local_training)


def _check_second_derivative(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    local_training: LocalTraining,
) -> None:
    """Compare the derivative of the update with a difference quotient along one direction.

    A loss that is differentiable once may raise here, or pass for a constant without a word; the
    attack would then fail for want of a gradient and look like privacy.
    """
    double = Task(copy.deepcopy(task.model).double(), task.loss, task.classes)
    draw = torch.Generator().manual_seed(0)
    along = torch.randn(inputs.shape, dtype=torch.float64, generator=draw).to(inputs.device)
    mix = torch.randn(weights.shape, dtype=torch.float64, generator=draw).to(inputs.device)
    targets = labels.double() if labels.is_floating_point() else labels

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return (client_update(double, weights.double(), x, targets, local_training) * mix).sum()

    start = inputs.double()
    sentence = (
        "the loss or the model is not twice differentiable, but attacks need the derivative of "
        "the update; use a loss and activations built from torch's own functions"
    )
    try:
        derivative = (grad(mixed)(start) * along).sum().item()
        ahead, behind = mixed(start + _STEP * along), mixed(start - _STEP * along)
    except Exception as error:
        raise InvalidInput(f"{sentence} ({first_line(error)}).") from error
    quotient = (ahead - behind).item() / (2 * _STEP)
    scale = max(abs(quotient), abs(derivative), mixed(start).abs().item() * _AGREE)
    if not abs(quotient - derivative) <= _AGREE * scale + 1e-9:
        raise InvalidInput(f"{sentence}.")


def first_line(error: Exception) -> str:
    """The first line of an error's message, without its full stop."""
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
