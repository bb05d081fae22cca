"""Inputs read off the first linear layer's gradient, without any optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import torch

from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View, common_view
from trilemma.attacks.labels import infer_labels
from trilemma.attacks.matching import ViewTensors
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.learning import Task

__all__ = ["Analytic"]

_MOST: Final = 12  # records of an update that sparsity can tell apart: each doubles the draws
_DRAWS: Final = 4096  # sets of neurons that are taken to be at rest
_ZERO: Final = 1e-5  # of the largest, in updates of single precision
_AT_REST: Final = 1e-4
_SPARSE: Final = 400  # directions that are kept
_TRIES: Final = 8  # sets from which the search starts
_AGREE: Final = 0.98  # share of neurons that must rest where the gradient says so


@dataclass(frozen=True)
class Analytic:
    """x = ∂L/∂W_i / ∂L/∂b_i for every neuron i of a first linear layer with bias.

    One record: all neurons agree, and are combined by least squares,
    x_j = Σ_i b_i W_ij / Σ_i b_i² over the known coordinates, which is exact without noise.
    Several records: the gradient [∂W, ∂b] = Σ_s δ_s (x_s, 1) has them in its rows' span. Where
    neurons rest (ReLU) each δ_s is sparse, which tells the records apart (Dimitrov et al. 2024:
    a direction of the span that many neurons do not see belongs to one record). Elsewhere a
    neuron that only one record activates shows that record; the rows most in range, and far from
    one another, are the candidates. Restarts change nothing.
    """

    name: ClassVar[str] = "analytic"
    knows: ClassVar[KnowledgeLevel] = "nothing"

    def applies(self, view: View) -> bool:
        """Whether the model's first step is a linear layer with bias on the flat input."""
        return _first_linear(view.task, view.weights, view.input_spec) is not None

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        view = common_view(views)
        place = _first_linear(view.task, view.weights, view.input_spec)
        if place is None:
            raise InvalidInput(
                "the analytic attack needs a model that starts with a trained linear layer with "
                "bias on the flattened input; use 'dlg' or 'inverting-gradients' for this one."
            )
        units = ViewTensors.of(views, "double")
        weight, bias = place
        size = view.input_spec.size
        dw = units.update[:, weight].reshape(len(units), -1, size)
        known = units.known[:, weight].reshape(len(units), -1, size)
        known = known * units.known[:, bias, None]
        if units.client_weights.ndim == 3:  # a ratio needs the same clients above and below
            clients = units.client_weights.shape[1]
            above = units.client_weights[:, :, weight].reshape(len(units), clients, -1, size)
            known = known * (above == units.client_weights[:, :, bias, None]).all(1)
        db = units.update[:, bias, None]
        layers = torch.cat(
            (units.weights[:, weight].reshape(dw.shape), units.weights[:, bias, None]), 2
        )
        if view.records == 1:
            inputs = ((known * db * dw).sum(1) / _positive((known * db**2).sum(1)))[:, None]
        else:
            inputs = torch.stack(
                [_records(*unit, view, seed) for unit in zip(dw, db, known, layers, strict=True)]
            )
        shape = (*inputs.shape[:2], *view.input_spec.shape)
        inputs = view.input_spec.settled(torch.nan_to_num(inputs).reshape(shape)).flatten(2)
        misfit = known[:, None] * (dw[:, None] - db[:, None] * inputs[:, :, None])
        loss = (misfit**2).sum(3).min(1).values.sum(1)
        dtype = view.observation.update.dtype
        return Reconstructions(
            inputs.reshape(shape).to(dtype),
            infer_labels(units, seed),
            loss.to(dtype),
            ~torch.isfinite(loss),
        )


def _positive(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(min=torch.finfo(values.dtype).tiny)


def _records(
    dw: torch.Tensor,
    db: torch.Tensor,
    known: torch.Tensor,
    layer: torch.Tensor,
    view: View,
    seed: int,
) -> torch.Tensor:
    """S candidates [S, size] of one unit: those that sparsity tells apart, or distinct rows."""
    read = known.all(1)
    if view.records <= _MOST and int(read.sum()) > view.records:
        gradient = torch.cat((dw, db), 1)[read]
        found = _told_apart(gradient, layer[read], view.records, seed)
        if found is not None:
            return found
    return _distinct_rows(dw, db, known, view)


def _told_apart(
    gradient: torch.Tensor, layer: torch.Tensor, records: int, seed: int
) -> torch.Tensor | None:
    """The records [S, size] behind a gradient [H, size + 1] of the layer [H, size + 1].

    G = Δ X with X = (x, 1), so G = L R of rank S gives Δ = L Q and X = Q⁻¹ R. A column q of Q is
    orthogonal to the rows of L of all neurons that its record leaves at rest: S - 1 of them, hit
    by chance, tell it. Other directions may be as sparse; the right set is the one whose records
    leave just those neurons at rest, found by exchanging one direction after the other.
    """
    seen = gradient.abs().amax(1) > _ZERO * gradient.abs().max()
    gradient, layer = gradient[seen], layer[seen]
    left, values, right = torch.linalg.svd(gradient, full_matrices=False)
    rank = int((values > _ZERO * values[0]).sum()) if len(values) else 0
    if rank != records or len(gradient) <= rank:
        return None
    left, right = left[:, :rank] * values[:rank], right[:rank]
    left = left / left.norm(dim=1, keepdim=True)
    draw = Seeded(seed).torch_generator("neurons at rest")
    chosen = torch.rand(_DRAWS, len(left), generator=draw).argsort(1)[:, : rank - 1]
    null = torch.linalg.svd(left[chosen.to(left.device)]).Vh[:, -1]
    null = null * torch.sign(null.gather(1, null.abs().argmax(1, keepdim=True)))
    null = null[_first_of_each((null / _AT_REST).round())]
    resting = ((left @ null.T).abs() < _AT_REST).sum(0)
    # a chance direction is seen by all but the rank - 1 neurons that made it
    null = null[resting.argsort(descending=True, stable=True)][: int((resting >= rank).sum())]
    null = null[:_SPARSE]

    def read(columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Records [n, S, size + 1] of directions [n, S, S], and how many neurons agree [n]."""
        inverse, _ = torch.linalg.inv_ex(columns.transpose(1, 2))
        rows = inverse @ right
        # of what is on one side of a neuron only the direction counts, up to the last entry's sign
        active = (inverse @ (right @ layer.T)) * torch.sign(rows[..., -1:]) > 0
        moved = (columns @ left.T).abs() >= _AT_REST
        agree = (active == moved).to(rows).mean((1, 2))
        return rows / rows[..., -1:], torch.where(rows.isfinite().flatten(1).all(1), agree, 0.0)

    for _ in range(_TRIES):
        if len(null) < rank:
            break
        start = torch.randperm(len(null), generator=draw)[:rank].to(null.device)
        best, agreed = null[start], 0.0
        while True:
            # every direction in the place of each of the set
            tried = best.expand(len(null), rank, rank, rank).clone()
            for place in range(rank):
                tried[:, place, place] = null
            rows, agree = read(tried.flatten(0, 1))
            top = int(agree.argmax())
            if float(agree[top]) <= agreed:
                break
            best, agreed, found = tried.flatten(0, 1)[top], float(agree[top]), rows[top]
        if agreed > _AGREE:
            return found[:, :-1]
    return None


def _first_of_each(rows: torch.Tensor) -> torch.Tensor:
    """The places of the distinct rows [n, d], each where it comes first."""
    _, inverse = torch.unique(rows, dim=0, return_inverse=True)
    places = torch.arange(len(rows), device=rows.device)
    first = torch.full((int(inverse.max()) + 1,), len(rows), device=rows.device)
    return first.scatter_reduce(0, inverse, places, "amin").sort().values


def _distinct_rows(
    dw: torch.Tensor, db: torch.Tensor, known: torch.Tensor, view: View
) -> torch.Tensor:
    """Candidates [≤ S, size] of one unit: rows in range first, then far from those chosen."""
    low, high = (torch.as_tensor(bound).to(dw) for bound in view.input_spec.bounds(dw))
    usable = (known * db).abs().amax(1) > 1e-9 * db.abs().max()
    rows = torch.where(known * db != 0, dw / db, (low + high) / 2)
    rows = torch.where(usable[:, None], rows, (low + high) / 2)
    violation = ((rows - rows.clamp(low, high)) / (high - low)).abs().mean(1)
    violation = torch.where(usable, violation, torch.inf)
    rows = rows.clamp(low, high)
    chosen = [int(violation.argmin())]
    while len(chosen) < min(view.records, len(rows)):  # more are but copies
        unit = (rows - low) / (high - low)
        gap = torch.cdist(unit, unit[chosen]).min(1).values / rows.shape[1] ** 0.5
        chosen.append(int((gap - violation).argmax()))
    return rows[chosen]


def _first_linear(
    task: Task, weights: torch.Tensor, spec: InputSpec
) -> tuple[slice, slice] | None:
    """Where weight and bias of a linear layer that reads the raw flat input lie in the update."""
    layout = task.layout
    if spec.discrete:
        return None
    rising = torch.linspace(spec.low, spec.high, spec.size)
    probe = torch.stack((rising, rising.flip(0))).reshape(2, *spec.shape).to(weights)
    for prefix, module in task.model.named_modules():
        names = [f"{prefix}.{part}".lstrip(".") for part in ("weight", "bias")]
        if not isinstance(module, torch.nn.Linear) or not set(names) <= set(layout.names):
            continue
        seen = _inputs_of(module, task, weights, probe)
        if len(seen) == 1 and torch.equal(seen[0].flatten(1), probe.flatten(1)):
            starts = [sum(layout.sizes[: layout.names.index(name)]) for name in names]
            sizes = (module.in_features * module.out_features, module.out_features)
            first, second = (slice(a, a + n) for a, n in zip(starts, sizes, strict=True))
            return first, second
    return None


def _inputs_of(
    module: torch.nn.Module, task: Task, weights: torch.Tensor, probe: torch.Tensor
) -> list[torch.Tensor]:
    """What reaches `module` while the model runs on a probe."""
    seen: list[torch.Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    try:
        with torch.no_grad():
            task.outputs(weights, probe)
    finally:
        handle.remove()
    return seen
