"""Labels read off the last linear layer's part of an update, before any input is known.

For softmax with cross-entropy the gradient of the last bias is, over S records,
∂L/∂b_c = mean_s p_sc - n_c w_c / Σ_k n_k w_k, where n_c counts the records of class c and w_c are
the loss's class weights, one each where it has none.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import torch

from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors
    from trilemma.learning import Task
    from trilemma.records.range import InputSpec

__all__ = ["infer_labels", "last_linear", "likely_labels", "nearest_labels", "tensor_slices"]

_PROBES = 64  # random inputs that tell the mean prediction p at the weights


def last_linear(task: Task) -> tuple[slice, slice | None] | None:
    """Where the last linear layer's weight and bias lie in the flat update; None if it has none.

    The layer counts only if it has one output for each class.
    """
    slices = tensor_slices(task)
    found = None
    for prefix, module in task.model.named_modules():
        if not isinstance(module, torch.nn.Linear) or module.out_features != task.classes:
            continue
        weight, bias = (f"{prefix}.{part}".lstrip(".") for part in ("weight", "bias"))
        if weight in slices:
            found = slices[weight], slices.get(bias)
    return found


def tensor_slices(task: Task) -> dict[str, slice]:
    """Where each trainable tensor lies in the flat update."""
    ends = list(accumulate(task.layout.sizes))
    starts = [0, *ends[:-1]]
    return dict(zip(task.layout.names, map(slice, starts, ends), strict=True))


def infer_labels(units: ViewTensors, seed: int) -> torch.Tensor | None:
    """Class indices [U, S], sorted, or None where the update does not tell them.

    One record: the only row whose gradient has the sign of p_c - 1 < 0. Several: the counts n_c
    that best explain the bias gradient at the mean prediction over random inputs in the range;
    they need the bias, all of it read, in updates of known scale.
    """
    likely = likely_labels(units, seed, 1)
    return None if likely is None else likely[:, 0]


def likely_labels(units: ViewTensors, seed: int, most: int) -> torch.Tensor | None:
    """The likeliest sets of labels [U, L, S], L at most `most`, the best first; or None.

    Of several records, besides the best counts those that differ from it by one record's class.
    """
    view = units.view
    place = last_linear(view.task)
    if view.task.classes is None or place is None:
        return None
    weight, bias = place
    if view.records == 1:
        one = _one_record(units, weight, bias)
        return None if one is None else one[:, None]
    if bias is None or view.observation.clip is not None or not bool(units.known[:, bias].all()):
        return None
    shares = units.client_weights
    shares = shares[:, :, None] if shares.ndim == 2 else shares[:, :, bias]
    if not bool((shares == shares[:, :1]).all()):
        return None
    return nearest_labels(_expected(units, bias, shares.sum(1), seed), view.records, most)


def _one_record(units: ViewTensors, weight: slice, bias: slice | None) -> torch.Tensor | None:
    if bias is not None and bool(units.known[:, bias].all()):
        return units.update[:, bias].argmin(1, keepdim=True)
    if not bool(units.known[:, weight].all()):
        return None
    rows = units.update[:, weight].reshape(len(units), units.view.task.classes or 1, -1)
    # row c is (p_c - y_c)·h: the true class points against all the others
    agreement = torch.bmm(rows, rows.transpose(1, 2))
    agreement.diagonal(dim1=1, dim2=2).zero_()
    return agreement.sum(2).argmin(1, keepdim=True)


def _expected(units: ViewTensors, bias: slice, share: torch.Tensor, seed: int) -> torch.Tensor:
    """How many records of each class [U, C] explain the bias gradient, not rounded."""
    view = units.view
    training, task = view.local_training, view.task
    generator = Seeded(seed).torch_generator("label probes")
    probes = _probes(view.input_spec, generator).to(units.weights)
    outputs = task.way.vmap(lambda weights: task.outputs(weights, probes))(units.weights)
    mean = torch.softmax(outputs, -1).mean(1)
    per_step = 1.0 if training.algorithm == "fedsgd" else training.lr * training.steps
    parts = mean - units.update[:, bias] / (per_step * share)
    weights = _class_weights(task, parts)
    counts = torch.where(weights > 0, parts / weights, 0.0)
    known = parts.clamp(min=0).sum(1, keepdim=True)
    return view.records * counts * known / counts.clamp(min=0).sum(1, keepdim=True)


def nearest_labels(expected: torch.Tensor, records: int, most: int) -> torch.Tensor:
    """Labels [U, L, S]: of the counts nearest to those expected [U, C], and of their neighbours.

    >>> nearest_labels(torch.tensor([[1.4, 0.6]]), 2, 2).tolist()
    [[[0, 1], [0, 0]]]
    """
    chosen, left = [], expected
    for _ in range(records):
        label = left.argmax(1, keepdim=True)
        left = left.scatter_add(1, label, -torch.ones_like(left[:, :1]))
        chosen.append(label)
    best = torch.cat(chosen, 1).sort(1).values
    classes = expected.shape[1]
    if most == 1 or classes < 2:
        return best[:, None]
    # the first record of a class that goes over to another
    counts = torch.nn.functional.one_hot(best, classes).sum(1)
    gain = 2 * (left[:, None, :] - left[:, :, None])  # of the squared distance, by a to b
    gain = torch.where(counts[:, :, None] > 0, gain, -torch.inf)
    gain.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
    moves = gain.flatten(1).topk(min(most - 1, classes * (classes - 1)), 1)
    sets = [best]
    for move, value in zip(moves.indices.T, moves.values.T, strict=True):
        first = (best == (move // classes)[:, None]).int().argmax(1, keepdim=True)
        moved = best.scatter(1, first, (move % classes)[:, None]).sort(1).values
        sets.append(torch.where(torch.isfinite(value)[:, None], moved, best))
    return torch.stack(sets, 1)


def _probes(spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    """Random inputs [64, *shape]: anywhere in the range, of a table as its columns are spread."""
    draw = torch.randn if spec.columns else torch.rand
    drawn = draw(_PROBES, *spec.shape, generator=generator, dtype=torch.float64)
    if not spec.columns:
        return spec.inputs(drawn)
    return spec.settled(spec.searched(spec.typical(drawn, 1.0)))


def _class_weights(task: Task, like: torch.Tensor) -> torch.Tensor:
    """The weights [C] of the classes in a batch's loss, their mean one.

    At equal outputs every class pulls alike, but for its weight.
    """
    classes = like.shape[1]
    labels = torch.arange(classes, device=like.device)
    gradient = task.way.grad(task.loss_of)(like.new_zeros(classes, classes), labels)
    pull: torch.Tensor = gradient.norm(dim=1)
    return pull / pull.mean()
