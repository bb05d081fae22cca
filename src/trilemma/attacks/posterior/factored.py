"""Updates of records through linear layers, as factors: inner products without the updates.

The gradient of a record's loss by a linear layer's weight is the outer product δ aᵀ of the
gradient δ at the layer's output and of its input a (with a one behind it for the bias), so that
⟨g_i, g_j⟩ = Σ_layers (a_i·a_j)(δ_i·δ_j): d_in + d_out numbers a pair and layer, not d_in · d_out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.func import vmap
from torch.nn.functional import pad

from trilemma.attacks.posterior.candidate_updates import contributions, in_context
from trilemma.attacks.posterior.inner_products import Table
from trilemma.learning.modules import tensor_name

if TYPE_CHECKING:
    from trilemma.attacks.posterior.posterior_inputs import Batch
    from trilemma.learning import LocalTraining, Task
    from trilemma.updates import Layout

__all__ = ["Factors", "factored_table", "factors", "linear_layers"]

_TRIED: Final = 3  # records by which factors are compared with the updates themselves
_CLOSE: Final = 1e-3  # of the largest inner product; another model's differ by their own size


@dataclass(frozen=True, eq=False)
class Factors:
    """Inputs a [B, n, d_in (+ 1 with a bias)] and gradients δ [B, n, d_out] of each layer."""

    layout: Layout
    names: tuple[str, ...]
    inputs: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor, ...]

    def products(self, other: Factors) -> torch.Tensor:
        """⟨g_i, h_j⟩ [B, n, n'] with another's updates."""
        sides = zip(self.inputs, other.inputs, self.gradients, other.gradients, strict=True)
        layers = ((a @ b.transpose(1, 2)).mul_(d @ e.transpose(1, 2)) for a, b, d, e in sides)
        return reduce(torch.Tensor.add_, layers)  # in place: they are larger than any cache

    def squares(self) -> torch.Tensor:
        """‖g_i‖² [B, n]."""
        sides = zip(self.inputs, self.gradients, strict=True)
        return sum(a.square().sum(2) * d.square().sum(2) for a, d in sides)  # type: ignore[return-value]

    def with_vectors(self, vectors: torch.Tensor) -> torch.Tensor:
        """⟨g_i, v⟩ [B, n, V] with vectors [B, V, m]."""
        named = vmap(vmap(self.layout.unflatten))(vectors)
        total = vectors.new_zeros(len(vectors), self.gradients[0].shape[1], vectors.shape[1])
        for name, a, d in zip(self.names, self.inputs, self.gradients, strict=True):
            sides, bias = (named.get(tensor_name(name, own)) for own in ("weight", "bias"))
            assert sides is not None
            if bias is not None:
                sides = torch.cat([sides, bias[..., None]], -1)
            total += ((a[:, None] @ sides.transpose(2, 3)) * d[:, None]).sum(3).transpose(1, 2)
        return total

    def mean(self) -> torch.Tensor:
        """The updates' mean [B, m]."""
        named = {}
        for name, a, d in zip(self.names, self.inputs, self.gradients, strict=True):
            weight = d.transpose(1, 2) @ a / a.shape[1]
            if f"{name}.bias" in self.layout.names:
                named[f"{name}.bias"], weight = weight[..., -1], weight[..., :-1]
            named[f"{name}.weight"] = weight
        mean: torch.Tensor = vmap(self.layout.flatten)(named)
        return mean

    def clipped(self, clip: float) -> Factors:
        """The same updates, each cut to the norm `clip`; one that is not finite becomes zero."""
        squares = self.squares()
        finite = torch.isfinite(squares)
        norms = torch.sqrt(squares + torch.finfo(squares.dtype).tiny)
        kept = torch.where(finite, torch.clamp(clip / norms, max=1.0), 0.0)[..., None]
        return Factors(
            self.layout,
            self.names,
            tuple(torch.where(finite[..., None], a, 0.0) for a in self.inputs),
            tuple(torch.where(finite[..., None], d, 0.0) * kept for d in self.gradients),
        )


def linear_layers(
    task: Task, weights: torch.Tensor, records: Batch, training: LocalTraining
) -> tuple[str, ...] | None:
    """The layers' names where single records' updates are made of factors, else None.

    Every trained tensor is to belong to a linear layer that is used once, on one vector a record;
    a few updates at weights [B, m] are compared with the factors', for models may do as they like.
    """
    if training.algorithm != "fedsgd" or in_context(task, training):
        return None
    modules = task.model.named_modules()
    layers = tuple(name for name, item in modules if type(item) is torch.nn.Linear)
    tensors = {
        f"{layer}.{name}"
        for layer in layers
        for name, _ in task.model.get_submodule(layer).named_parameters()
    }
    few = records.rows(0, _TRIED)
    if tensors != set(task.layout.names) or not _once(task, layers, few):
        return None
    at, few = weights[:1], few.units(0, 1)
    rows = contributions(task, [at], few, training)
    plain = rows @ rows.transpose(1, 2)
    made = factors(task, layers, at, few, training)
    gap = (made.products(made) - plain).abs().amax()
    return layers if bool(gap <= _CLOSE * plain.abs().amax()) else None


def factors(
    task: Task,
    layers: Sequence[str],
    weights: torch.Tensor,
    records: Batch,
    training: LocalTraining,
) -> Factors:
    """The factors of each record's update at weights [B, m], as long as the training leaves it."""

    def gradients(
        tensors: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        written = {name: tensors[f"{name}.weight"] for name in layers}
        taps = {
            name: value.new_zeros(inputs.shape[0], value.shape[0])
            for name, value in written.items()
        }

        def loss(
            taps: dict[str, torch.Tensor],
        ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            with _tapped(task.model, layers, taps) as seen:
                outputs = task.run(tensors, inputs)
            losses = way.vmap(lambda output, label: task.loss_of(output[None], label[None]))
            return losses(outputs, labels).sum(), {name: value[0] for name, value in seen.items()}

        found: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]
        found = way.grad(loss, has_aux=True)(taps)
        return found

    way, place = task.way, None if records.shared else 0
    tensors = vmap(task.layout.unflatten)(weights)
    made, read = way.vmap(gradients, (0, place, place))(tensors, records.inputs, records.labels)
    ones = [float(f"{name}.bias" in task.layout.names) for name in layers]
    inputs = [
        pad(read[name], (0, 1), value=1.0) if one else read[name]
        for name, one in zip(layers, ones, strict=True)
    ]
    found = Factors(
        task.layout, tuple(layers), tuple(inputs), tuple(made[name] for name in layers)
    )
    return found if training.record_clip is None else found.clipped(training.record_clip)


def factored_table(
    population: Factors,
    candidates: Factors,
    centre: torch.Tensor,
    anchors: torch.Tensor,
    known: torch.Tensor,
) -> Table:
    """The table of population and candidates around centre [B, m], and of anchors [B, A, m]."""
    vectors = torch.cat([centre[:, None], anchors], 1)
    cross = vectors @ vectors.transpose(1, 2)
    own, offered = population.with_vectors(vectors), candidates.with_vectors(vectors)
    middle = cross[:, :1, :1]
    rows = population.products(population)
    rows.sub_(own[:, :, :1]).sub_(own[:, :, :1].transpose(1, 2)).add_(middle)
    row_candidate = population.products(candidates)
    row_candidate.sub_(own[:, :, :1]).sub_(offered[:, :, :1].transpose(1, 2)).add_(middle)
    return Table(
        rows,
        own[:, :, 1:] - cross[:, :1, 1:],
        row_candidate,
        cross[:, 1:, 1:],
        (offered[:, :, 1:] - cross[:, :1, 1:]).transpose(1, 2),
        candidates.squares() - 2 * offered[:, :, 0] + middle[:, 0],
        known,
    )


def _once(task: Task, layers: Sequence[str], records: Batch) -> bool:
    """Whether each layer reads one vector of each record, once."""
    inputs = records.inputs if records.shared else records.inputs[0]
    like = next(task.model.parameters())
    given = inputs.to(like if inputs.is_floating_point() else like.device)
    with torch.no_grad(), _tapped(task.model, layers, {}) as seen:
        task.model(given)
    shapes = Counter(item.shape[:-1] for inputs in seen.values() for item in inputs)
    return shapes == {torch.Size([len(inputs)]): len(layers)} and len(seen) == len(layers)


@contextmanager
def _tapped(
    model: torch.nn.Module, layers: Sequence[str], taps: dict[str, torch.Tensor]
) -> Iterator[dict[str, list[torch.Tensor]]]:
    """Keeps what each layer reads, and adds a tap to what it writes."""
    seen: dict[str, list[torch.Tensor]] = {}

    def hooked(name: str) -> Any:
        def hook(_: torch.nn.Module, given: tuple[torch.Tensor, ...], made: torch.Tensor) -> Any:
            seen.setdefault(name, []).append(given[0])
            return made + taps[name] if name in taps else None

        return model.get_submodule(name).register_forward_hook(hook)

    handles = [hooked(name) for name in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
