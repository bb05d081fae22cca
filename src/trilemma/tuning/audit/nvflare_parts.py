"""NVFlare's filters, with their own arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.omission import Omission
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.quantities import finite
from trilemma.tuning.audit.setting_parts import QUARTERS, Part, fewer_kept, given

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = ["ExcludeVars", "PercentilePrivacy", "SVTPrivacy"]


class _Filter(Part):
    """A filter, which is pasted as in a site's privacy.json or a job's client configuration."""

    def paste(self) -> str:
        args = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given(self).items()
        }
        return json.dumps({"name": self.name.partition(".")[2], "args": args})


@dataclass(frozen=True)
class PercentilePrivacy(_Filter):
    """NVFlare's filter of the largest differences."""

    percentile: float = 10
    gamma: float = 0.01

    name: ClassVar[str] = "nvflare.PercentilePrivacy"

    def __post_init__(self) -> None:
        for name in ("percentile", "gamma"):
            finite(name, getattr(self, name))

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (Percentile(self.percentile, self.gamma, _steps(scenario)),)

    def stronger(self) -> Iterator[Part]:
        usual = replace(self, gamma=self.gamma if self.gamma > 0 else 0.01)
        for power in range(1, QUARTERS + 1):
            yield replace(usual, percentile=fewer_kept(self.percentile, power))

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        if not Percentile(self.percentile, self.gamma).works:
            yield (
                f"With gamma = {self.gamma:g} and percentile = {self.percentile:g} NVFlare "
                "filters nothing, and says so in its debug log alone."
            )
        else:
            yield (
                "It sends the largest differences clipped one by one, without noise. A job that "
                "sends weights, NVFlare's default, has its weights clipped instead."
            )


@dataclass(frozen=True)
class SVTPrivacy(_Filter):
    """NVFlare's sparse vector technique."""

    fraction: float = 0.1
    epsilon: float = 0.1
    noise_var: float = 0.1
    gamma: float = 1e-5
    tau: float = 1e-6
    replace: bool = True
    epsilon_threshold: float | None = None
    epsilon_query: float | None = None
    epsilon_release: float | None = None

    name: ClassVar[str] = "nvflare.SVTPrivacy"

    def __post_init__(self) -> None:
        self._transform(1)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (self._transform(_steps(scenario)),)

    def _transform(self, steps: int) -> SparseVector:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return SparseVector(**own, steps=steps)

    def stronger(self) -> Iterator[Part]:
        for power in range(1, QUARTERS + 1):
            if self.epsilon_release is None:
                yield replace(self, noise_var=self.noise_var / 4**power)
            else:
                yield replace(self, epsilon_release=self.epsilon_release / 4**power)

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        size = scenario.task.layout.size
        made = self._transform(1)
        yield (
            f"epsilon = {self.epsilon:g} covers the choice of coordinates; by NVFlare's own "
            f"ledger the values of {made.draws(size):,} of {size:,} cost "
            f"{made.budgets(size)[2]:g} besides, in every round."
        )


@dataclass(frozen=True)
class ExcludeVars(_Filter):
    """NVFlare's exclusion of tensors by name, or by a regular expression."""

    exclude_vars: str | tuple[str, ...] = ()

    name: ClassVar[str] = "nvflare.ExcludeVars"

    def __post_init__(self) -> None:
        if isinstance(self.exclude_vars, str):
            try:
                re.compile(self.exclude_vars)
            except re.error as error:
                raise InvalidInput(
                    f"exclude_vars {self.exclude_vars!r} is no regular expression ({error})."
                ) from None

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        layout, spans, start = scenario.task.layout, [], 0
        for name, size in zip(layout.names, layout.sizes, strict=True):
            if self._excludes(name):
                spans.append((start, start + size))
            start += size
        if sum(stop - first for first, stop in spans) == layout.size:
            raise InvalidInput(
                f"exclude_vars {self.exclude_vars!r} leaves nothing to send of "
                f"{', '.join(layout.names)}; exclude fewer."
            )
        return (Omission(tuple(spans)),) if spans else ()

    def _excludes(self, name: str) -> bool:
        if isinstance(self.exclude_vars, str):
            return bool(self.exclude_vars) and bool(re.search(self.exclude_vars, name))
        return name in self.exclude_vars

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        names = scenario.task.layout.names
        if any(map(self._excludes, names)):
            yield "What is excluded is not trained by the federation either."
        else:
            yield f"No tensor is excluded: the model's are {', '.join(names)}."


def _steps(scenario: Scenario) -> int:
    """How many steps NVFlare divides a difference by; raises where it would pass a tensor by."""
    layout = scenario.task.layout
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        if not shape:
            raise InvalidInput(
                f"NVFlare's filters send {name} as it is, as it has no dimension; give it one, or "
                "audit a model without it."
            )
    return scenario.local_training.steps
