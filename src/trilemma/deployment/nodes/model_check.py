"""A node's look at the model that the server sent, before it trains on it.

It reads the model, probes that are no records of the node's, and earlier models, so that what it
says, and whether a node refuses, depends on no record: a check on records would itself be a
question that a server could ask. On the probes, with labels drawn at random, it measures

    alike    the share of a layer's units that have a twin: units that rise and fall together, as
             those of an imprint layer, which part records by one direction, do
    slices   on what share of the probes a layer's middle unit depends: units of their own for
             hardly any record
    loudest  the probe with the largest part in all gradients: a unit that drowns the others
    scale    a layer's longest row or column over its middle one
    step     how far the model went since the last accepted one, over the longest step before
    jump     how far a unit went since then, over its length: one put in place of another

What it cannot see: a unit for one record that no probe resembles, as large as others (a silent
trapdoor), in the first model, where there is nothing to compare with, or moved there by small
steps; and whatever else stays below the limits. It is a warning. What protects records whatever
the model is are clip and noise.
"""

from __future__ import annotations

import copy
import io
import logging
import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, ModelRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilemma.learning.losses import Loss

__all__ = ["LIMITS", "Findings", "Limits", "ModelCheck", "Probes", "Seen", "look"]

_LOG: Final = logging.getLogger("trilemma.nodes")
_MEMORY: Final = "model-check"

_FEWEST: Final = 8  # units of a layer that is looked at
_ROWS: Final = 1024  # places of probes by which units are compared
_TWIN: Final = 0.99  # correlation of two units that are twins
_PROBES: Final = 64
_STEPS: Final = 2.0  # of middle units, that a unit may go besides


@dataclass(frozen=True)
class Limits:
    """Where each measure becomes a finding; benchmarks/model_check.py says how often."""

    alike: float = 0.5
    slices: float = 0.06
    loudest: float = 0.5
    scale: float = 50.0
    step: float = 10.0
    jump: float = 1.1


LIMITS: Final = Limits()


@dataclass(frozen=True, eq=False)
class Probes:
    """Inputs [P, ...] that are no records of the node's, with labels [P, ...] drawn at random."""

    inputs: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, public: torch.Tensor, labels: torch.Tensor, seed: int) -> Probes:
        """Public inputs [n, ...], some of them, with their labels [n, ...] shuffled."""
        if len(public) < _FEWEST or len(public) != len(labels):
            raise InvalidInput(
                f"a look takes {_FEWEST} public records at least with a label each, got "
                f"{len(public)} and {len(labels)}; give more, or use Probes.seeded."
            )
        draw = Seeded(seed).torch_generator("probes")
        rows = torch.randperm(len(public), generator=draw)[:_PROBES]
        others = torch.randint(len(labels), (len(rows),), generator=draw)
        return cls(public[rows], labels[others])

    @classmethod
    def seeded(
        cls, shape: tuple[int, ...], low: float, high: float, classes: int, seed: int
    ) -> Probes:
        """Uniform inputs of a shape within a range, for who has no public records."""
        draw = Seeded(seed).torch_generator("probes")
        inputs = low + (high - low) * torch.rand(_PROBES, *shape, generator=draw)
        return cls(inputs, torch.randint(classes, (_PROBES,), generator=draw))


@dataclass(frozen=True, eq=False)
class Seen:
    """What a node remembers of the models that it accepted: the last one, and the longest step."""

    tensors: Mapping[str, torch.Tensor]
    longest: float = 0.0


@dataclass(frozen=True, eq=False)
class Findings:
    """What a look saw: measures by name, and a sentence for each that is beyond its limit.

    `seen` is what to remember if the model is accepted.
    """

    measures: Mapping[str, float]
    alarms: tuple[str, ...]
    seen: Seen = field(repr=False)


def look(
    model: nn.Module,
    loss: Loss,
    probes: Probes,
    earlier: Seen | None = None,
    *,
    limits: Limits = LIMITS,
) -> Findings:
    """What stands out in a model, by the probes and by what was accepted before.

    The model is left as it is.
    """
    tensors = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    weights = [tensor for tensor in tensors.values() if tensor.is_floating_point()]
    if not all(bool(torch.isfinite(weight).all()) for weight in weights):
        said = ("the model holds numbers that are not finite",)
        return Findings({"finite": 0.0}, said, earlier or Seen(tensors))
    layers, finite = _layers(model, loss, probes)
    if not finite:
        said = ("on probes the model's outputs or gradients are not finite",)
        return Findings({"finite": 0.0}, said, earlier or Seen(tensors))
    measures = {"finite": 1.0, **_of_layers(layers), "scale": _scale(model)}
    step = _distance(tensors, earlier.tensors) if earlier is not None else 0.0
    if earlier is not None:
        measures["jump"] = _jump(tensors, earlier.tensors)
    if earlier is not None and earlier.longest > 0:
        measures["step"] = step / earlier.longest
    seen = Seen(tensors, max(step, earlier.longest if earlier is not None else 0.0))
    return Findings(measures, tuple(_alarms(measures, limits)), seen)


def _alarms(measures: Mapping[str, float], limits: Limits) -> list[str]:
    said: list[tuple[str, Callable[[float], bool], str]] = [
        ("alike", lambda v: v > limits.alike, "{:.0%} of a layer's units rise and fall together"),
        ("slices", lambda v: v < limits.slices, "a layer's units go by {:.1%} of the probes each"),
        ("loudest", lambda v: v > limits.loudest, "one probe has {:.0%} of all gradients"),
        (
            "scale",
            lambda v: v > limits.scale,
            "a unit's weights are {:.0f} times as long as usual",
        ),
        ("step", lambda v: v > limits.step, "the model moved {:.0f} times as far as ever before"),
        ("jump", lambda v: v > limits.jump, "a unit moved by {:.0%} of its length"),
    ]
    return [
        text.format(measures[name])
        for name, beyond, text in said
        if name in measures and beyond(measures[name])
    ]


@dataclass(frozen=True, eq=False)
class _Layer:
    """Of each unit at each probe: what it computes [P, T, H], and what depends on it [P, H]."""

    values: torch.Tensor
    influence: torch.Tensor


def _layers(model: nn.Module, loss: Loss, probes: Probes) -> tuple[list[_Layer], bool]:
    """What layers do on the probes, and whether all of it is finite."""
    own = copy.deepcopy(model).eval()
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    modules = [module for module in own.modules() if isinstance(module, kinds)]
    widths = {module.weight.shape[0] for module in modules}
    like = next(own.parameters())
    inputs = probes.inputs.to(like.device)
    inputs = inputs.to(like.dtype) if inputs.is_floating_point() else inputs
    wide = [module for module in modules if module.weight.shape[0] >= _FEWEST]
    pairs = _outputs_and_gradients(own, wide, loss, inputs, probes.labels.to(like.device))
    if pairs is None:
        return [], False
    layers = []
    for made, gradient in pairs:
        if gradient is None or len(made) != len(inputs):
            continue
        convolved = made.ndim > 2 and made.shape[1] in widths and made.ndim == inputs.ndim
        values, grads = made.detach(), gradient
        if convolved:
            values, grads = values.movedim(1, -1), grads.movedim(1, -1)
        values = values.reshape(len(values), -1, values.shape[-1])
        grads = grads.reshape(values.shape)
        if not bool(torch.isfinite(grads).all() and torch.isfinite(values).all()):
            return [], False
        layers.append(_Layer(values.double(), grads.double().norm(dim=1)))
    return layers, True


def _outputs_and_gradients(
    model: nn.Module,
    modules: Sequence[nn.Module],
    loss: Loss,
    inputs: torch.Tensor,
    labels: torch.Tensor,
) -> list[tuple[torch.Tensor, torch.Tensor | None]] | None:
    """What the modules return on the probes, with the loss's gradients; None: not finite."""
    kept: list[torch.Tensor] = []

    def keep(_: nn.Module, __: object, made: torch.Tensor) -> None:
        if made.requires_grad:
            kept.append(made)

    handles = [module.register_forward_hook(keep) for module in modules]
    try:
        with torch.enable_grad():
            outputs = model(inputs)
            if not bool(torch.isfinite(outputs).all()):
                return None
            value = loss(outputs, labels)
            gradients = torch.autograd.grad(value, kept, allow_unused=True) if kept else ()
    finally:
        for handle in handles:
            handle.remove()
    return list(zip(kept, gradients, strict=True))


def _of_layers(layers: list[_Layer]) -> dict[str, float]:
    if not layers:
        return {}
    alike = max(_alike(layer.values) for layer in layers)
    slices = min(_slices(layer.influence) for layer in layers)
    total = torch.stack([layer.influence.square().sum(1) for layer in layers]).sum(0).sqrt()
    loudest = float(total.max() / total.sum().clamp(min=1e-300))
    return {"alike": alike, "slices": slices, "loudest": loudest}


def _alike(values: torch.Tensor) -> float:
    """The share of units with a twin."""
    rows = values.flatten(0, 1)
    rows = rows[:: max(1, len(rows) // _ROWS)]
    centred = rows - rows.mean(0)
    lengths = centred.norm(dim=0)
    moving = lengths > 1e-9 * lengths.max()
    if int(moving.sum()) < _FEWEST:
        return 0.0
    units = centred[:, moving] / lengths[moving]
    related = (units.T @ units).abs()
    related.fill_diagonal_(0.0)
    return float((related.amax(0) > _TWIN).double().mean())


def _slices(influence: torch.Tensor) -> float:
    """Of the middle unit that anything depends on, the effective share of probes."""
    squares = influence.square().sum(0)
    live = squares > 1e-24 * squares.max()
    if int(live.sum()) < _FEWEST:
        return 1.0
    own = influence[:, live]
    effective = own.sum(0).square() / own.square().sum(0)
    return float(effective.median()) / len(influence)


def _scale(model: nn.Module) -> float:
    largest = 1.0
    for parameter in model.parameters():
        matrix = (
            parameter.detach().double().flatten(1)
            if parameter.ndim > 1
            else parameter.new_zeros(0, 0)
        )
        for rows in (matrix, matrix.T if parameter.ndim == 2 else matrix[:0]):
            if len(rows) >= _FEWEST:
                lengths = rows.norm(dim=1)
                middle = float(lengths.median())
                if middle > 0:
                    largest = max(largest, float(lengths.max()) / middle)
    return largest


def _jump(now: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor]) -> float:
    """Of each tensor with a row for each unit, the longest step of a row over its length.

    That is the longer one of its two lengths, or the middle row's; and as much as middle rows
    went, which noise moves all.
    """
    largest = 0.0
    for name, value in now.items():
        if value.ndim < 2 or len(value) < _FEWEST or name not in before:
            continue
        rows, earlier = (model[name].double().flatten(1) for model in (now, before))
        if rows.shape == earlier.shape:
            steps, lengths = (rows - earlier).norm(dim=1), earlier.norm(dim=1)
            usual = torch.maximum(rows.norm(dim=1), lengths).clamp(min=lengths.median())
            usual = (usual + _STEPS * steps.median()).clamp(min=1e-300)
            largest = max(largest, float((steps / usual).max()))
    return largest


def _distance(now: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor]) -> float:
    squares = [
        float((now[name].double() - before[name].double()).square().sum())
        for name in now
        if name in before and now[name].shape == before[name].shape
    ]
    return math.sqrt(math.fsum(squares))


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """A node's look at each model before it trains: the app's model and loss, and probes.

    `limits` are where a measure becomes a finding. The node's policy says what follows:
    `model-check` "warn" (the default) or "refuse".
    """

    model: nn.Module
    loss: Loss
    probes: Probes
    limits: Limits = LIMITS

    def require(
        self,
        arrays: Mapping[str, torch.Tensor],
        memory: MutableMapping[str, Any],
        policy: str = "warn",
    ) -> Findings:
        """Looks at a model's arrays by name; warns in the log, or raises `ModelRefused`.

        What is said to the server is the same whatever stood out. `memory` keeps the last accepted
        model; one with findings is not kept, so that it is no measure for the next.
        """
        if policy not in ("warn", "refuse"):
            raise InvalidInput(f"model-check must be warn or refuse, got {policy!r}.")
        own = copy.deepcopy(self.model)
        own.load_state_dict({**own.state_dict(), **arrays})
        kept = memory.get(_MEMORY)
        earlier = None
        if isinstance(kept, bytes):
            stored = torch.load(io.BytesIO(kept), weights_only=True)
            earlier = Seen(stored["tensors"], float(stored["longest"]))
        found = look(own, self.loss, self.probes, earlier, limits=self.limits)
        if not found.alarms:
            room = io.BytesIO()
            torch.save({"tensors": dict(found.seen.tensors), "longest": found.seen.longest}, room)
            memory[_MEMORY] = room.getvalue()
            return found
        _LOG.warning("the server's model stands out: %s", "; ".join(found.alarms))
        if policy == "refuse":
            raise ModelRefused(
                "this node refuses the model that it was sent; its log says what stands out."
            )
        return found
