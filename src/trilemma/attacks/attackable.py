"""Whether a task can be attacked at all; each refusal says why and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.learning import Task
    from trilemma.records.range import InputSpec

__all__ = ["check_task"]

_BATCH_NORM = (torch.nn.modules.batchnorm._BatchNorm,)


def check_task(
    task: Task, input_spec: InputSpec, inputs: torch.Tensor, targets: torch.Tensor
) -> None:
    """Raise InvalidInput if the engine cannot run the task on sample records [n, ...].

    Checks the model's mode, its outputs, the labels, the data's range, and that the gradient of
    a matching loss with respect to the inputs is finite and not identically zero; where there is
    none (of inputs that an embedding looks up, say), updates of records are compared.
    """
    _check_records(task, input_spec, inputs, targets)
    for name, module in task.model.named_modules():
        if module.training and isinstance(module, _BATCH_NORM) and module.track_running_stats:
            raise InvalidInput(
                f"the model's BatchNorm {name!r} is in train mode, where an output depends on the "
                f"whole batch and updates its state; call model.eval() so that it uses its stored "
                f"statistics, or use GroupNorm."
            )
    parameters = dict(task.model.named_parameters())
    weights = task.layout.flatten(parameters).detach()
    inputs = inputs[:2].to(weights if inputs.is_floating_point() else weights.device)
    targets = targets[:2].to(weights.device)
    if targets.is_floating_point():
        targets = targets.to(weights)
    outputs = _outputs(task, weights, inputs)
    if task.classes is not None and outputs.shape[1:] != (task.classes,):
        raise InvalidInput(
            f"the model must return one score for each of the {task.classes} classes, "
            f"got outputs of shape {tuple(outputs.shape[1:])} a record."
        )
    if not input_spec.discrete and not task.way.once:
        _check_second_derivative(task, weights, inputs, targets)


def _check_records(
    task: Task, spec: InputSpec, inputs: torch.Tensor, targets: torch.Tensor
) -> None:
    if inputs.shape[0] < 1 or inputs.shape[0] != targets.shape[0]:
        raise InvalidInput(
            f"a task is checked on at least one record with one target each, got "
            f"{inputs.shape[0]} inputs and {targets.shape[0]} targets."
        )
    if tuple(inputs.shape[1:]) != spec.shape:
        raise InvalidInput(
            f"inputs have shape {tuple(inputs.shape[1:])} a record, expected {spec.shape}."
        )
    if not bool(torch.isfinite(inputs).all()):
        odd = int((~torch.isfinite(inputs)).sum())
        raise InvalidInput(f"inputs contain NaN or infinity {odd} times; clean the data first.")
    low, high = float(inputs.min()), float(inputs.max())
    if low < spec.low or high > spec.high:
        raise InvalidInput(
            f"inputs reach [{low:g}, {high:g}], outside the stated range "
            f"[{spec.low:g}, {spec.high:g}]; widen the range or rescale the data."
        )
    if task.classes is not None:
        if targets.is_floating_point():
            raise InvalidInput(
                f"labels of a classification task must be integers, got {targets.dtype}."
            )
        if int(targets.min()) < 0 or int(targets.max()) >= task.classes:
            raise InvalidInput(
                f"labels must lie in 0 … {task.classes - 1}, "
                f"got {int(targets.min())} … {int(targets.max())}."
            )


def _outputs(task: Task, weights: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    try:
        outputs = task.outputs(weights, inputs)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # it ran when it was tried: a model may raise anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InvalidInput(
            f"the model ran on its first records, and then no more ({first}); what it keeps from "
            f"call to call must be a buffer (register_buffer), or be left out."
        ) from error
    if not bool(torch.isfinite(outputs).all()):
        raise InvalidInput(
            "the model returns NaN or infinity on its own data; check its weights and the "
            "scale of its inputs."
        )
    return outputs


def _check_second_derivative(
    task: Task, weights: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor
) -> None:
    """∂/∂x ‖∇_w L(w; x)‖² must be finite and not vanish."""
    way = task.way

    def energy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = way.grad(task.mean_loss)(w, x, targets)
        return (gradient * gradient).sum()

    with sdpa_kernel(SDPBackend.MATH):  # as the engine does
        gradient = way.vmap(way.grad(energy))(inputs[None], weights[None])
    if not bool(torch.isfinite(gradient).all()):
        raise InvalidInput(
            "the second derivative of the loss is not finite on the data; use a smooth loss "
            "and activation (no square root or norm at zero)."
        )
    if not bool(gradient.any()):
        raise InvalidInput(
            "the update does not change with the inputs (the loss is not twice "
            "differentiable), so no gradient attack can run; use a loss with a second "
            "derivative."
        )
