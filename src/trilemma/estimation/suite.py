"""The binding suite: the attacks of which none may recover a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn
from torch.func import grad

from trilemma.attacks import Analytic, get
from trilemma.errors import InvalidInput
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.units import Measurement, unit_views

__all__ = ["Suite", "binding_suite", "is_smooth"]

_KINKED: Final = (
    nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.MaxPool1d,
    nn.MaxPool2d, nn.MaxPool3d, nn.PReLU, nn.RReLU, nn.ReLU, nn.ReLU6, nn.Softshrink, nn.Threshold,
)  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """The names of the attacks that bind."""

    binding: tuple[str, ...]


def binding_suite(scenario: Scenario, asked: Sequence[str] | None = None) -> Suite:
    """DLG, the analytic attack where it applies, Inverting Gradients where the model has kinks."""
    if asked is not None:
        return _asked(scenario, asked)
    names = ["dlg"]
    if _analytic_applies(scenario):
        names.append("analytic")
    if not is_smooth(scenario):
        names.append("inverting-gradients")
    return Suite(tuple(names))


def _asked(scenario: Scenario, asked: Sequence[str]) -> Suite:
    if not asked:
        raise InvalidInput("give at least one attack, or leave attacks out for the default ones.")
    for name in asked:
        get(name)  # an unknown name is told here
    if "analytic" in asked and not _analytic_applies(scenario):
        raise InvalidInput(
            "the analytic attack needs a model that starts with a linear layer with bias; leave "
            "it out."
        )
    return Suite(tuple(dict.fromkeys(asked)))


def is_smooth(scenario: Scenario) -> bool:
    """Whether the model's outputs curve in their inputs: no kinked layers, second derivative ≠ 0.

    Gradient matching by L-BFGS needs the curvature; a network of ReLUs is piecewise linear, which
    the second derivative along random directions shows even where no layer tells.
    """
    task = scenario.task
    if any(isinstance(module, _KINKED) for module in task.model.modules()):
        return False
    draw = torch.Generator().manual_seed(0)
    shape = (4, *scenario.input_spec.shape)
    inputs = scenario.records[0].inputs[:4].to(scenario.device)
    along = torch.randn(shape, generator=draw)[: len(inputs)].to(inputs)
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    mix = torch.randn(task.outputs(weights, inputs).shape, generator=draw).to(inputs)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return (task.outputs(weights, x) * mix).sum()

    def slope(x: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = grad(mixed)(x)
        return (gradient * along).sum()

    curve: torch.Tensor = grad(slope)(inputs)
    return bool(curve.abs().max() > 1e-6 * slope(inputs).abs())


def _analytic_applies(scenario: Scenario) -> bool:
    views, _, _ = unit_views(scenario, Measurement(steps=0), range(1))
    return Analytic().applies(views[0])
