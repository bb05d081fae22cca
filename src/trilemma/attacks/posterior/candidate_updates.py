"""What single records contribute to an update, for many records and units at once.

A client's update for S records is the mean of their contributions: exactly so for a gradient,
nearly so for several local steps, if those are taken along the client's own path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from trilemma.attacks.posterior.posterior_inputs import blocks, held_at_once
from trilemma.learning import (
    BatchNormContext,
    RecordLoss,
    clip_records,
    clip_scales,
    record_gradients,
    written_out,
)
from trilemma.learning.forward_memory import held_at_most, held_by_record

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors
    from trilemma.attacks.posterior.posterior_inputs import Batch
    from trilemma.attacks.posterior.turned_axes import Axes
    from trilemma.learning import LocalTraining, Products, Task

__all__ = [
    "Path",
    "average_path",
    "batch_contexts",
    "bent_models",
    "contributions",
    "in_context",
    "likely_deviation",
    "likely_walk",
    "observed_path",
    "seen_path",
    "simulable",
]

Path = tuple[list[torch.Tensor], torch.Tensor]
"""Models w_t [U, m] at which a client uses its records, and the mean contribution [U, m]."""

_CONTEXT: Final = 64  # records whose statistics stand for those of a batch
_BATCHES: Final = 8  # whose records a population must have for simulated ones
_HELD: Final = 2**22  # numbers held at once for a mean: updates times coordinates


def average_path(
    task: Task, weights: torch.Tensor, average: Batch, training: LocalTraining
) -> Path:
    """The path of a client that descends the mean loss of the records `average`.

    One model for a gradient, T for T local steps, w_{t+1} = w_t - lr · ∇L(w_t).
    """
    path = [weights]
    local = training.algorithm == "fedavg"
    step = total = _mean_gradient(task, weights, average, training)
    for _ in range(training.steps - 1 if local else 0):
        path.append(path[-1] - training.lr * step)
        step = _mean_gradient(task, path[-1], average, training)
        total = total + step
    return path, training.lr * total if local else total


def bent_models(path: Path, deviation: torch.Tensor) -> list[torch.Tensor]:
    """Models [U, m] on the path of a client whose update deviates by [U, m] from the average.

    It gets as far with each step as the average client does, but straight to where its own update
    says that it ended: what records do to one another's gradients is in the update.
    """
    models, mean = path
    if len(models) == 1:
        return models
    start, norm = models[0], mean.square().sum(1, keepdim=True)
    return [
        start - ((start - model) * mean).sum(1, keepdim=True) / norm * (mean + deviation)
        for model in models
    ]


def observed_path(
    task: Task, path: Path, deviation: torch.Tensor, average: Batch, training: LocalTraining
) -> Path:
    """The models of a client whose update deviates by [U, m], and what the average adds there."""
    if len(path[0]) == 1:
        return path
    bent = bent_models(path, deviation)
    gradients = [_mean_gradient(task, model, average, training) for model in bent]
    return bent, training.lr * torch.stack(gradients).sum(0)


def likely_deviation(
    gap: torch.Tensor, weights: torch.Tensor, models: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """How far the first client's update is likely to be from the average one's, [U, m].

    `gap` [U, m] is what was observed of clients of these weights [U, K], or [U, K, m], beyond the
    average. It is believed the less, the more its noise, of energy [U], would change the models
    [U, m] that it is added to.
    """
    tiny = torch.finfo(gap.dtype).tiny
    lead = weights[:, 0] / weights.square().sum(1).clamp(min=tiny)
    energy = models.square().sum(1)
    kept = energy / (energy + noise).clamp(min=tiny)
    return lead.reshape(len(gap), -1) * kept[:, None] * gap


def likely_walk(units: ViewTensors, block: slice, population: Batch) -> tuple[Path, torch.Tensor]:
    """The average client's path of some units, and how far from its end the first client's is."""
    task, training, weights = units.view.task, units.view.local_training, units.weights[block]
    averaged = average_path(task, weights, population, training)
    known, clients = units.known[block], units.client_weights[block]
    total = clients.sum(1).reshape(len(clients), -1)
    gap = units.update[block] - known * total * averaged[1]
    noise = units.noise[block].square() * known.sum(1)
    return averaged, likely_deviation(gap, clients, weights, noise)


def seen_path(units: ViewTensors, block: slice, population: Batch) -> Path:
    """The average client's path of some units, bent to where their messages say that it ended."""
    walk = likely_walk(units, block, population)
    return observed_path(units.view.task, *walk, population, units.view.local_training)


def _mean_gradient(
    task: Task, weights: torch.Tensor, average: Batch, training: LocalTraining
) -> torch.Tensor:
    """The mean gradient [U, m] of the records, which are normalised together if at all.

    Where they are too many at once, the mean of their blocks', of at least a client's records; a
    block without a loss, as of padding alone, is left out.
    """
    if training.record_clip is None:
        room, own = _room(task, weights, average), (0, *_places(average))
        size = average.count if task.normalises_batches else max(training.batch, room)
        gradient = task.way.vmap(
            task.way.grad_and_value(task.mean_loss), own, chunk_size=max(1, room // average.count)
        )
        means, counts = list[torch.Tensor](), list[torch.Tensor]()
        for start, stop in blocks(average.count, size):
            some = average.rows(start, stop)
            with sdpa_kernel(SDPBackend.MATH):  # torch.func cannot map the fused attention
                mean, loss = gradient(weights, some.inputs, some.labels)
            there = loss.isfinite()[:, None]
            means.append(some.count * torch.where(there, mean, 0.0))
            counts.append(some.count * there)
        return torch.stack(means).sum(0) / torch.stack(counts).sum(0)
    sums = [
        _gradients(task, weights, average.rows(start, stop), training).sum(1)
        for start, stop in blocks(average.count, held_at_once(_HELD, weights) // weights.numel())
    ]
    return torch.stack(sums).sum(0) / average.count


def in_context(task: Task, training: LocalTraining) -> bool:
    """Whether a record is normalised together with others."""
    return task.normalises_batches and not training.by_record and training.batch > 1


def simulable(task: Task, training: LocalTraining, population: Batch) -> bool:
    """Whether batches of a population tell how records that are normalised together add up.

    Fewer records than make up eight batches would say of themselves what they do not of others.
    """
    return in_context(task, training) and population.count >= _BATCHES * training.unit_size


def batch_contexts(
    task: Task, path: Sequence[torch.Tensor], population: Batch, training: LocalTraining
) -> list[BatchNormContext] | None:
    """What a record of a batch finds beside it at each model of a path, by a population.

    None where a record is not normalised together with others.
    """
    if not in_context(task, training):
        return None
    some = population.rows(0, _CONTEXT)
    with sdpa_kernel(SDPBackend.MATH):
        found = [
            BatchNormContext.of(
                *(task, vmap(task.layout.unflatten)(weights), some.inputs, some.labels),
                training.batch,
                shared=some.shared,
            )
            for weights in path
        ]
    return found if found[0].moments else None  # a module that is never called couples no records


def contributions(
    task: Task,
    path: Sequence[torch.Tensor],
    records: Batch,
    training: LocalTraining,
    beside: Sequence[BatchNormContext] | None = None,
    axes: Axes | None = None,
) -> torch.Tensor:
    """Each record's contribution [U, n, m]: its gradient, or lr · Σ_t of those along the path.

    With axes, what they read of one unit's records, [1, n, k].

    Where batches are normalised an update is no sum over records. What is nearest to a record's
    part of it is the gradient of its loss in the context `beside` it at each model of the path,
    and of what it does to the others' (`BatchNormContext.loss`).
    """
    met = [None] * len(path) if beside is None else beside
    total = _gradients(task, path[0], records, training, axes, met[0])
    for weights, context in zip(path[1:], met[1:], strict=True):
        total += _gradients(task, weights, records, training, axes, context)
    return total.mul_(training.lr) if training.algorithm == "fedavg" else total


def _gradients(
    task: Task,
    weights: torch.Tensor,
    records: Batch,
    training: LocalTraining,
    axes: Axes | None = None,
    context: BatchNormContext | None = None,
) -> torch.Tensor:
    """Each record's gradient [U, n, m] at weights [U, m], as long as the training leaves it."""

    def loss(
        tensors: dict[str, torch.Tensor], met: Any, record: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        if context is not None:
            return context.loss(task, tensors, met, record, label)
        return task.loss_of(task.run(tensors, record[None]), label[None])

    met: Any = () if context is None else context.met
    if len(weights) == 1:
        only = records.inputs, records.labels
        inputs, labels = only if records.shared else (item[0] for item in only)
        own, size = tree_map(lambda item: item[0], met), context and context.size
        named = RecordLoss(("in a batch of", size), loss)
        parts = record_gradients(task, named, weights[0], own, inputs, labels)
        if axes is not None:
            return _read(axes, parts, training.record_clip)[None]
        whole = torch.cat([written_out(part) for part in parts], 1)[None]
    elif context is None and len(weights) * records.count > _room(task, weights, records):
        each = [
            _gradients(task, weights[unit, None], records.units(unit, unit + 1), training)
            for unit in range(len(weights))
        ]
        return torch.cat(each)
    else:
        # by named tensors: differentiating through the flat vector takes twice as long
        way = task.way
        own = way.vmap(way.grad(loss), (None, None, 0, 0))
        gradients = way.vmap(own, (0, 0, *_places(records)))
        tensors = vmap(task.layout.unflatten)(weights)
        with sdpa_kernel(SDPBackend.MATH):
            made = gradients(tensors, met, records.inputs, records.labels)
        whole = torch.cat([made[name].flatten(2) for name in task.layout.names], 2)
    return whole if training.record_clip is None else clip_records(whole, training.record_clip)


def _read(
    axes: Axes, gradients: Sequence[torch.Tensor | Products], clip: float | None
) -> torch.Tensor:
    """What axes read of clipped gradients [n, k]: only one tensor of them is written out at once.

    Of a gradient that is not finite nothing is left.
    """
    if clip is None:
        return axes.read(gradients)
    # The factor's root, before and after: what is read of a huge gradient would overflow.
    root = clip_scales(gradients, clip).sqrt().to(gradients[0].dtype)
    read = root[:, None] * axes.read([part * root[:, None] for part in gradients])
    return torch.where(root[:, None] > 0, read, 0.0)


def _room(task: Task, weights: torch.Tensor, records: Batch) -> int:
    """Records whose forward passes may be held at once."""
    record, label = (
        value[0] if records.shared else value[0, 0] for value in (records.inputs, records.labels)
    )
    return held_at_most(weights) // held_by_record(task, weights[0], record, label)


def _places(records: Batch) -> tuple[int | None, int | None]:
    return (None, None) if records.shared else (0, 0)
