"""Whether an update is what its derivative says: no attack may fail for a wrong gradient."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Final, cast

import torch
from torch import nn
from torch.nn.functional import one_hot
from torch.nn.modules.batchnorm import _BatchNorm

from trilemma.errors import InvalidInput, place_of
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.learning.losses import differ, label_batches
from trilemma.learning.modules import drop_nothing

__all__ = [
    "COUPLED",
    "check_loss",
    "check_shapes",
    "check_statistics",
    "check_update",
    "checked_before",
    "first_line",
    "is_checked",
]

# Of the difference quotients, in double precision: one step for smooth models, and others so short
# that a ReLU network crosses no kink on them: a ResNet-18 does on 1e-6 and 1e-8.
_STEPS: Final = (1e-6, 1e-9, 1e-8, 1e-10)
_AGREE: Final = 1e-3
_BESIDE: Final = 1e-3
_KEPT: Final = (1e-3, 1e-5)  # relative and absolute, by which statistics may differ
_CHECKED: ContextVar[bool] = ContextVar("a scenario's model and loss are tried", default=False)


COUPLED: Final = (
    "record_clip and Poisson sampling add up the gradients of single records, but the loss of a "
    "batch is not the mean of its records' losses; use such a mean (class weights without a "
    "common denominator), or train without them."
)


@contextmanager
def checked_before() -> Iterator[None]:
    """Scenarios made meanwhile were tried by another process: for a large model, half a minute."""
    before = _CHECKED.set(True)
    try:
        yield
    finally:
        _CHECKED.reset(before)


def is_checked() -> bool:
    """Whether what is made now was tried before."""
    return _CHECKED.get()


def check_shapes(task: Task, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    """Numbers [S, ...] to be predicted are compared with their own record's outputs.

    Of [S, 1] and [S] torch makes [S, S], with no more than a warning: a loss that is another than
    the mean of its records' losses, which is tried where shapes differ.
    """
    if task.classes is not None or not labels.is_floating_point():
        return
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    outputs = task.outputs(weights, inputs).detach()
    if outputs.shape == labels.shape:
        return

    def one_by_one(at: torch.Tensor) -> torch.Tensor:
        rows = range(len(labels))
        return torch.stack([task.loss_of(at[[row]], labels[[row]]) for row in rows]).mean()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch's, of what is refused here
        try:
            spread = differ(partial(task.loss_of, targets=labels), one_by_one, outputs, task.way)
        except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):
            return  # the next check refuses that
    if spread:
        made, given = (
            f"[{', '.join(['n', *map(str, value.shape[1:])])}]" for value in (outputs, labels)
        )
        raise InvalidInput(
            f"the model returns {made} for labels {given}, so that the loss compares every output "
            f"with every label; give labels {made}, or let the model return {given}."
        )


def check_loss(
    task: Task, inputs: torch.Tensor, labels: torch.Tensor, local_training: LocalTraining
) -> None:
    """The loss must be one and the same for classes and for one-hot rows.

    Tried on records [S, ...], with labels of every class in turn. Where updates are made of
    single records' gradients it must be the mean of their losses, too.
    """
    try:
        unlike = _unlike_labels(task, inputs[: local_training.batch])
        coupled = (
            local_training.by_record
            and task.couples_records(inputs, labels)
            and not task.weighs_records(inputs, labels)
        )
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"the loss cannot be computed for each class of each record ({first_line(error)}); "
            f"build it from torch's own functions, without branches on values."
        ) from error
    if unlike is not None:
        raise InvalidInput(
            f"the loss of the labels {unlike} is another for the same labels as one-hot rows, "
            f"over which attacks search; use torch.nn.CrossEntropyLoss (with weight=... where "
            f"classes weigh unlike), or a loss that is the mean of its records' losses."
        )
    if coupled:
        raise InvalidInput(COUPLED)


def _unlike_labels(task: Task, inputs: torch.Tensor) -> list[int] | None:
    """Labels for which the hard and the one-hot loss of these records [S, ...] differ."""
    if task.classes is None:
        return None
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    outputs = task.outputs(weights, inputs).detach()
    for batch in label_batches(task.classes, inputs.shape[0]):
        labels = batch.to(outputs.device)
        rows = one_hot(labels, task.classes).to(outputs)
        hard, soft = (partial(task.loss_of, targets=value) for value in (labels, rows))
        if differ(hard, soft, outputs, task.way):
            return [int(label) for label in batch]
    return None


def check_update(
    task: Task,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    local_training: LocalTraining,
    *,
    derivative: bool = True,
) -> None:
    """One unit's update [S, ...] must exist, be finite and have a derivative in the inputs.

    It must exist in single and in double precision, as attacks compute in both. No derivative is
    asked for (`derivative`) where inputs are looked up in an embedding.
    """
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    try:
        update = client_update(task, weights, inputs, labels, local_training)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"the update of the first batch cannot be computed ({first_line(error)}); check that "
            f"model, loss and labels belong together."
        ) from error
    if not torch.isfinite(update).all():
        raise InvalidInput(
            "the update of the first batch contains NaN or infinity; check the loss and the "
            "scale of the inputs."
        )
    _check_precisions(task, weights, inputs, labels, local_training)
    if derivative:
        _check_second_derivative(task, weights, inputs, labels, local_training)


def check_statistics(
    given: nn.Module,
    task: Task,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    local_training: LocalTraining,
) -> None:
    """What is sent of running statistics after a batch [B, ...] must be what torch keeps of it.

    A layer may be called twice for a batch, without the hooks that watch it, or apart from the
    loss, where no gradient tells of it.
    """
    own = copy.deepcopy(given).to(inputs.device)
    drop_nothing(own)
    for module in own.modules():
        if isinstance(module, _BatchNorm) and module.training:
            module.reset_running_stats()
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    one_step = replace(local_training, algorithm="fedsgd", steps=1, records=None)
    with torch.no_grad():
        own(inputs)
        sent = client_update(task, weights, inputs, labels, one_step)
    found, kept = task.layout.unflatten(weights - local_training.lr * sent), own.state_dict()
    for name, rate in task.layout.unflatten(cast(torch.Tensor, task.statistics)).items():
        if bool(rate.any()) and not torch.allclose(found[name].cpu(), kept[name].cpu(), *_KEPT):
            layer = name.rpartition(".")[0]
            raise InvalidInput(
                f"what BatchNorm {layer!r} keeps of a batch cannot be followed: it is called "
                f"twice for a batch, by forward() or apart from the loss, or shares its "
                f"statistics; call it once for a batch, as a layer, or leave sends_statistics out."
            )


def _check_precisions(
    task: Task,
    weights: torch.Tensor,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    local_training: LocalTraining,
) -> None:
    """What has an update in its own precision must have one in the other.

    A constant that is made in forward() is of one precision alone: no attack may end there.
    """
    double = weights.dtype == torch.float64
    other, name = (torch.float32, "single") if double else (torch.float64, "double")
    x, y = (value.to(other) if value.is_floating_point() else value for value in (inputs, labels))
    try:
        client_update(task, weights.to(other), x, y, local_training)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"attacks compute in {name} precision as well, but there the model or the loss mixes "
            f"dtypes ({first_line(error)}); make the tensors that it computes with buffers "
            f"(register_buffer), or give them the dtype of what they meet, with "
            f"torch.ones(..., dtype=x.dtype) or x.to(y.dtype) instead of x.float()."
        ) from error


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
    draw = torch.Generator().manual_seed(0)
    along = torch.randn(inputs.shape, dtype=torch.float64, generator=draw).to(inputs.device)
    mix = torch.randn(weights.shape, dtype=torch.float64, generator=draw).to(inputs.device)
    targets = labels.double() if labels.is_floating_point() else labels

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return (client_update(task, weights.double(), x, targets, local_training) * mix).sum()

    # beside the records: equal neighbours (a blank border) tie in max-pooling, which has a kink
    start = inputs.double() + _BESIDE * torch.randn(
        inputs.shape, dtype=torch.float64, generator=draw
    ).to(inputs.device)
    sentence = (
        "the loss or the model is not twice differentiable, but attacks need the derivative of "
        "the update; use a loss and activations built from torch's own functions, and detach() "
        "nothing that depends on the records"
    )

    def agrees(derivative: float, step: float) -> bool:
        ahead, behind = (mixed(start + way * along).item() for way in (step, -step))
        there, size = (ahead - behind) / (2 * step), abs(ahead) * _AGREE
        return abs(there - derivative) <= _AGREE * max(abs(there), abs(derivative), size) + 1e-9

    try:
        gradient = task.way.grad(mixed)(start)
        derivative = (gradient * along).sum().item()
        smooth = any(agrees(derivative, step) for step in _STEPS)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise InvalidInput(f"{sentence} ({first_line(error)}).") from error
    if not smooth:
        raise InvalidInput(f"{sentence}.")
    if not bool(gradient.any()):
        raise InvalidInput(
            "the update does not change with the inputs, so that there is nothing to attack; "
            "train a layer that reads them, by a loss with a second derivative."
        )


def first_line(error: Exception) -> str:
    """The first line of an error's message without its full stop, and its place in your code."""
    text = str(error).strip().splitlines()
    said = text[0].rstrip(".") if text else type(error).__name__
    place = place_of(error)
    return f"{said}; {place}" if place else said
