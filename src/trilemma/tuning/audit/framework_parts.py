"""The parts that are known by a framework's name, and Opacus' DP-SGD."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from trilemma.errors import InvalidInput, UnknownName
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.randomization import Randomization
from trilemma.quantities import positive
from trilemma.tuning.audit.flower_parts import (
    AdaptiveClipping,
    ClientSideAdaptive,
    ClientSideFixed,
    FixedClipping,
    LocalDpMod,
    SecAggPlus,
    ServerSideAdaptive,
    ServerSideFixed,
)
from trilemma.tuning.audit.nvflare_parts import ExcludeVars, PercentilePrivacy, SVTPrivacy
from trilemma.tuning.audit.setting_parts import Part, rounded_up

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining

__all__ = ["FRAMEWORKS", "Opacus", "part_of"]


@dataclass(frozen=True)
class Opacus(Part):
    """Opacus' DP-SGD at each client: records clipped, drawn by Poisson, noise on their sum."""

    noise_multiplier: float
    max_grad_norm: float

    name: ClassVar[str] = "opacus.PrivacyEngine"

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        positive("max_grad_norm", self.max_grad_norm)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        training = scenario.local_training
        if training.algorithm != "fedsgd":
            raise InvalidInput(
                "Opacus adds its noise in each local step, and an audit plays rounds of one step "
                f"(fedsgd), but {scenario.name} takes {training.steps}; give such a scenario."
            )
        deviation = self.noise_multiplier * self.max_grad_norm / training.batch
        return (Randomization(deviation**2),)

    def training(self, training: LocalTraining) -> LocalTraining:
        return replace(training, record_clip=self.max_grad_norm, sampling="poisson", records=None)

    def noisier(self, factor: float) -> Self:
        return replace(self, noise_multiplier=rounded_up(self.noise_multiplier * factor))


FRAMEWORKS: Final[dict[str, type[Part]]] = {
    part.name: part
    for part in (
        LocalDpMod,
        FixedClipping,
        AdaptiveClipping,
        ClientSideFixed,
        ServerSideFixed,
        ClientSideAdaptive,
        ServerSideAdaptive,
        SecAggPlus,
        PercentilePrivacy,
        SVTPrivacy,
        ExcludeVars,
        Opacus,
    )
}
"""Name, framework.Name -> the part."""


def part_of(name: str, values: Mapping[str, Any]) -> Part:
    """The part of a framework, of arguments by name; one sentence where they do not fit."""
    kind = FRAMEWORKS[name]
    known = inspect.signature(kind).parameters
    for key in values:
        if key not in known:
            raise UnknownName(f"argument of {name}", key, known)
    missing = [
        key for key, item in known.items() if item.default is item.empty and key not in values
    ]
    if missing:
        raise InvalidInput(f"{name} needs {', '.join(missing)}; write {_example(name)}.")
    for key, value in values.items():
        _require_plain(name, key, value)
    texts = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return kind(**texts)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} cannot be read ({error}).") from None


def _require_plain(name: str, key: str, value: Any) -> None:
    """Raises unless an argument is a number or None, or the names of `exclude_vars`."""
    if key == "exclude_vars":
        names = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(item, str) for item in names):
            raise InvalidInput(f"exclude_vars is {value!r:.80}; names or a text are needed.")
    elif value is not None and not isinstance(value, int | float):
        raise InvalidInput(f"{key} of {name} is {value!r:.80}; a number is needed.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{key} of {name} is {value}; a finite number is needed.")


def _example(name: str) -> str:
    known = inspect.signature(FRAMEWORKS[name]).parameters
    needed = [key for key, value in known.items() if value.default is value.empty]
    return f"{name}:{','.join(f'{key}=...' for key in needed)}"
