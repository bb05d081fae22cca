"""Inputs read off the first linear layer's gradient, without any optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from trilemma.attacks.base import Reconstructions, Rung, View, common_view
from trilemma.attacks.labels import infer_labels
from trilemma.attacks.matching import Units
from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.learning import Task

__all__ = ["Analytic"]


@dataclass(frozen=True)
class Analytic:
    """x = ∂L/∂W_i / ∂L/∂b_i for every neuron i of a first linear layer with bias.

    One record: all neurons agree, and are combined by least squares,
    x_j = Σ_i b_i W_ij / Σ_i b_i² over the known coordinates, which is exact without noise.
    Several records: a neuron that only one record activates shows that record; the rows most in
    range, and far from one another, are the candidates. Restarts and seeds change nothing.
    """

    name: ClassVar[str] = "analytic"
    rung: ClassVar[Rung] = "nothing"

    def applies(self, view: View) -> bool:
        """Whether the model's first step is a linear layer with bias on the flat input."""
        return _first_linear(view.task, view.weights, view.input_spec) is not None

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        view = common_view(views)
        place = _first_linear(view.task, view.weights, view.input_spec)
        if place is None:
            raise InvalidInput(
                "the analytic attack needs a model that starts with a linear layer with bias on "
                "the flattened input; use 'dlg' or 'inverting-gradients' for this one."
            )
        units = Units.of(views, "double")
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
        if view.records == 1:
            inputs = ((known * db * dw).sum(1) / _positive((known * db**2).sum(1)))[:, None]
        else:
            inputs = torch.stack(
                [_distinct_rows(*unit, view) for unit in zip(dw, db, known, strict=True)]
            )
        low, high = view.input_spec.low, view.input_spec.high
        inputs = torch.nan_to_num(inputs).clamp(low, high)
        misfit = known[:, None] * (dw[:, None] - db[:, None] * inputs[:, :, None])
        loss = (misfit**2).sum(3).min(1).values.sum(1)
        dtype = view.observation.update.dtype
        shape = (len(views), view.records, *view.input_spec.shape)
        return Reconstructions(
            inputs.reshape(shape).to(dtype),
            infer_labels(units, seed),
            loss.to(dtype),
            ~torch.isfinite(loss),
        )


def _positive(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(min=torch.finfo(values.dtype).tiny)


def _distinct_rows(
    dw: torch.Tensor, db: torch.Tensor, known: torch.Tensor, view: View
) -> torch.Tensor:
    """S candidates [S, size] of one unit: rows in range first, then far from those chosen."""
    low, high = view.input_spec.low, view.input_spec.high
    usable = (known * db).abs().amax(1) > 1e-9 * db.abs().max()
    rows = torch.where(known * db != 0, dw / db, (low + high) / 2)
    rows = torch.where(usable[:, None], rows, (low + high) / 2)
    violation = (rows - rows.clamp(low, high)).abs().mean(1) / (high - low)
    violation = torch.where(usable, violation, torch.inf)
    rows = rows.clamp(low, high)
    chosen = [int(violation.argmin())]
    while len(chosen) < view.records:
        gap = torch.cdist(rows, rows[chosen]).min(1).values / rows.shape[1] ** 0.5 / (high - low)
        chosen.append(int((gap - violation).argmax()))
    return rows[chosen]


def _first_linear(
    task: Task, weights: torch.Tensor, spec: InputSpec
) -> tuple[slice, slice] | None:
    """Where weight and bias of a linear layer that reads the raw flat input lie in the update."""
    layout = task.layout
    probe = torch.linspace(spec.low, spec.high, spec.size).reshape(1, *spec.shape).to(weights)
    for prefix, module in task.model.named_modules():
        names = [f"{prefix}.{part}".lstrip(".") for part in ("weight", "bias")]
        if not isinstance(module, torch.nn.Linear) or not set(names) <= set(layout.names):
            continue
        seen = _inputs_of(module, task, weights, probe)
        if len(seen) == 1 and torch.equal(seen[0].reshape(-1), probe.reshape(-1)):
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
