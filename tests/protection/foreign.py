"""Transforms of a third party: one that `tune` can rank, with ways to break the contract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from trilemma.entropy import Seeded, System
from trilemma.protection.parameter import Parameter
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.quantities import positive


@dataclass(frozen=True)
class Shift(Tunable):
    """Adds noise of deviation `by`, and tells the truth of it or does not."""

    by: float
    told: str = "truth"

    name: ClassVar[str] = "shift"
    parameter: ClassVar[Parameter] = Parameter("b", "deviation of the shift", "larger")

    def __post_init__(self) -> None:
        positive("by (deviation of the shift)", self.by)

    @classmethod
    def at(cls, value: float) -> Shift:
        return cls(value)

    @classmethod
    def warm(cls, start: Start) -> float:
        return math.sqrt(start.noise)

    def reach(self, largest: float) -> float:
        return largest + 8 * self.by

    @property
    def scale(self) -> float:
        return self.by

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        assert isinstance(entropy, Seeded)
        noise = torch.randn(
            update.values.shape,
            dtype=torch.float64,
            generator=entropy.torch_generator("shift", client),
        )
        if self.told == "biased":
            noise = noise.abs()
        if self.told == "changes its input":
            update.values.mul_(2)
        return SparseUpdate(update.values + self.by * noise, update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        if self.told == "nothing":
            return mechanism
        return mechanism.with_noise("gaussian", self.by * (0.5 if self.told == "half" else 1))

    def describe(self) -> str:
        others = {"no text": "shift", "another text": "none"}
        return others.get(self.told) or super().describe()


@dataclass(frozen=True)
class Rounding(Transform):
    """Rounds to quarters or the like: nothing to tune, and errors of its own."""

    to: int = 4

    name: ClassVar[str] = "rounding"

    def __post_init__(self) -> None:
        if not self.to:
            raise ValueError("rounds to no part at all")

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        return SparseUpdate((self.to * update.values).round() / self.to, update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return mechanism
