"""Weights that a malicious server makes up, so that gradients tell more of single records.

A hidden linear layer h = W u + b reads u, the record itself in an MLP. `imprint` gives all its
units one direction v and biases that part the records by ⟨v, u⟩ into slices (Fowl et al. 2022,
"Robbing the Fed"): a unit that one record alone activates shows it, u = ∂W_i / ∂b_i.
`trap` gives every unit a direction of its own, in which hardly any record reaches it (Boenisch
et al. 2023). `trapdoor` leaves the model as it is but for the first unit, which fires for one
record alone; `trapdoors` has a record for each unit. `overflow` is a trapdoor ten thousand times
as strong as other units, beside which the rest drowns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, UnknownName
from trilemma.learning import Task

__all__ = [
    "CRAFTS", "IMPRINT", "craft", "hidden_linear", "reaching", "require_craftable", "shown_rows",
]  # fmt: skip

IMPRINT: Final = "imprint"

_SHARP: Final = 16.0  # a sigmoid's gradient over the distance of two slices; half, for a tanh
_RARE: Final = 0.03  # of the records reach a trap's unit
_BOUNDED: Final = (torch.nn.Sigmoid, torch.nn.Tanh)


def craft(
    kind: str, task: Task, weights: torch.Tensor, inputs: torch.Tensor, seed: int
) -> torch.Tensor:
    """Weights [m] of a kind, made from honest `weights` [m] and records of the attacker's own.

    `inputs` [n, ...] are what slices are made by; those kinds that are for certain records are for
    the first of them.
    """
    if kind not in CRAFTS:
        raise UnknownName("crafted model", kind, [*CRAFTS])
    require_craftable(task)
    name = hidden_linear(task.model)
    assert name is not None, "required"
    tensors = {n: value.clone() for n, value in task.layout.unflatten(weights).items()}
    read = reaching(task, weights, inputs, name)
    generator = Seeded(seed).torch_generator("crafted")
    made = CRAFTS[kind](task, name, tensors, read, generator)
    return task.layout.flatten({**tensors, **made})


def require_craftable(task: Task) -> None:
    """Raises where no crafted model is known for a network."""
    if hidden_linear(task.model) is None:
        raise InvalidInput(
            "a malicious server crafts the weights of a hidden linear layer with bias, and this "
            "model has none; attack it with server='curious'."
        )


def hidden_linear(model: torch.nn.Module) -> str | None:
    """The name of the widest trained linear layer with bias that another one comes after."""
    linear = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module.bias is not None
    ]
    hidden = [pair for pair in linear[:-1] if pair[1].weight.requires_grad]
    if not hidden:
        return None
    name: str = max(hidden, key=lambda pair: pair[1].out_features)[0]
    return name


def reaching(task: Task, weights: torch.Tensor, inputs: torch.Tensor, name: str) -> torch.Tensor:
    """What reaches a linear layer of these inputs [n, ...], as rows [n, T, d] of each."""
    seen: list[torch.Tensor] = []
    module = task.model.get_submodule(name)
    handle = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    try:
        with torch.no_grad():
            task.outputs(weights, inputs)
    finally:
        handle.remove()
    return seen[0].reshape(len(inputs), -1, seen[0].shape[-1])


def shown_rows(
    task: Task, weights: torch.Tensor, update: torch.Tensor, units: torch.Tensor | None = None
) -> torch.Tensor:
    """What a hidden layer's gradient shows of what it read [r, d]: ∂W_i / ∂b_i of each unit.

    And of the differences of units that are next to each other in their biases: of unbounded units
    on one direction each sees all that the next one does, and one slice more. `units` are those
    that were crafted (None: all).
    """
    name = hidden_linear(task.model)
    assert name is not None, "crafted"
    gradients, at = task.layout.unflatten(update.double()), task.layout.unflatten(weights.double())
    weight, bias = gradients[f"{name}.weight"], gradients[f"{name}.bias"]
    order = (at[f"{name}.bias"] / at[f"{name}.weight"].norm(dim=1).clamp(min=1e-300)).argsort()
    if units is not None:
        order = order[torch.isin(order, units.to(order))]
    weight, bias = weight[order], bias[order]
    above = torch.cat([weight, weight[1:] - weight[:-1]])
    below = torch.cat([bias, bias[1:] - bias[:-1]])
    large = below.abs() > 1e-6 * below.abs().max()
    return above[large] / below[large, None]


def _bounded(model: torch.nn.Module) -> bool:
    return any(isinstance(module, _BOUNDED) for module in model.modules())


def _steep(model: torch.nn.Module) -> float:
    tanh = any(isinstance(module, torch.nn.Tanh) for module in model.modules())
    return _SHARP / 2 if tanh else _SHARP


def _next(task: Task, name: str, units: int) -> str | None:
    """The linear layer that reads those units."""
    later = False
    for other, module in task.model.named_modules():
        if later and isinstance(module, torch.nn.Linear) and module.in_features == units:
            return str(other)
        later = later or other == name
    return None


_Tensors = Mapping[str, torch.Tensor]


def _imprint(
    task: Task, name: str, tensors: _Tensors, read: torch.Tensor, draw: torch.Generator
) -> dict[str, torch.Tensor]:
    weight, read = tensors[f"{name}.weight"], read.flatten(0, 1)
    units, width = weight.shape
    centred = read - read.mean(0)
    direction = torch.randn(width, generator=draw).to(weight)
    direction = direction / (centred @ direction).std().clamp(min=1e-6)
    levels = (torch.arange(units, device=weight.device, dtype=torch.float64) + 0.5) / units
    edges = torch.quantile((read @ direction).double(), levels).to(weight)
    sharp = torch.ones(units, device=weight.device, dtype=weight.dtype)
    if _bounded(task.model):  # each unit its own gradient: steep where slices are narrow
        gaps = torch.diff(edges, prepend=edges[:1] - (edges[1] - edges[0]))
        sharp = _steep(task.model) / gaps.clamp(min=1e-3)
    made = {
        f"{name}.weight": sharp[:, None] * direction,
        f"{name}.bias": -sharp * edges,
    }
    return made | _evenly(task, name, tensors, draw)


def _evenly(
    task: Task, name: str, tensors: _Tensors, draw: torch.Generator
) -> dict[str, torch.Tensor]:
    """The layer behind weighs all units alike, and so weakly that no output is sure."""
    after = _next(task, name, len(tensors[f"{name}.bias"]))
    if after is None:
        return {}
    weight = tensors[f"{after}.weight"]
    column = torch.randn(len(weight), 1, generator=draw).to(weight)
    return {f"{after}.weight": (0.1 * column / weight.shape[1]).expand_as(weight)}


def _trap(
    task: Task, name: str, tensors: _Tensors, read: torch.Tensor, draw: torch.Generator
) -> dict[str, torch.Tensor]:
    weight, read = tensors[f"{name}.weight"], read.flatten(0, 1)
    rows = torch.randn(weight.shape, generator=draw).to(weight)
    reached = read @ rows.T
    spread = reached.std(0).clamp(min=1e-6)
    edges = torch.quantile(reached.double(), 1 - _RARE, dim=0).to(weight)
    scale = (_steep(task.model) if _bounded(task.model) else 1.0) / spread
    made = {f"{name}.weight": rows * scale[:, None], f"{name}.bias": -edges * scale}
    return made | _evenly(task, name, tensors, draw)


def _for_records(
    gain: float,
    most: int,
    task: Task,
    name: str,
    tensors: _Tensors,
    read: torch.Tensor,
    draw: torch.Generator,
) -> dict[str, torch.Tensor]:
    """Unit i fires for record i alone, of the first `most`: the rest lie beyond its edge.

    Its direction is Fisher's, Σ⁻¹(u_i - mean), which parts one point from a cloud best.
    """
    weight, bias = tensors[f"{name}.weight"].clone(), tensors[f"{name}.bias"].clone()
    rows = read.flatten(0, 1).double()
    spread = torch.cov(rows.T, correction=0)
    ridge = 1e-3 * spread.diagonal().mean().clamp(min=1e-9) * torch.eye(len(spread)).to(spread)
    units = min(most, len(weight), len(read) - 1)
    targets = read[:units, 0].double()
    directions = torch.linalg.solve(spread + ridge, (targets - rows.mean(0)).T).T
    directions = directions / directions.norm(dim=1, keepdim=True).clamp(min=1e-300)
    reached = directions @ rows.T
    own = (directions * targets).sum(1)
    mine = torch.arange(reached.shape[1], device=rows.device) // read.shape[1]
    reached[mine == torch.arange(units, device=rows.device)[:, None]] = -torch.inf
    edges = (own + reached.amax(1)) / 2
    reach = (own - edges).abs().clamp(min=1e-3)
    usual = weight.norm(dim=1).median().double()
    gradients = 8 / reach if _bounded(task.model) else (gain * usual).expand(units)
    weight[:units] = (gradients[:, None] * directions).to(weight)
    bias[:units] = (-gradients * edges).to(bias)
    made = {f"{name}.weight": weight, f"{name}.bias": bias}
    if (after := _next(task, name, len(bias))) is not None:
        behind = tensors[f"{after}.weight"].clone()
        signs = torch.randn(len(behind), units, generator=draw).sign().to(behind)
        behind[:, :units] = gain * behind.abs().mean() * signs
        made[f"{after}.weight"] = behind
    return made


_Craft = Callable[[Task, str, _Tensors, torch.Tensor, torch.Generator], dict[str, torch.Tensor]]

CRAFTS: Final[Mapping[str, _Craft]] = {
    IMPRINT: _imprint,
    "trap": _trap,
    "trapdoor": partial(_for_records, 1.0, 1),
    "trapdoors": partial(_for_records, 1.0, 1 << 30),
    "overflow": partial(_for_records, 1e4, 1),
}
