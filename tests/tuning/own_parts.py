"""A third party's mechanism and attack, named module:object in tests of open registries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch

from trilemma.attacks import KnowledgeLevel, Reconstructions, View, get
from trilemma.entropy import Seeded, System
from trilemma.protection.parameter import Parameter
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate
from trilemma.protection.transforms.tunable import Start, Tunable


@dataclass(frozen=True)
class Laplace(Tunable):
    """Laplace noise of scale b, which no attack of ours is told of as such."""

    b: float

    name: ClassVar[str] = "tests.tuning.own_parts:Laplace"
    parameter: ClassVar[Parameter] = Parameter("b", "scale of the Laplace noise", "larger")

    @classmethod
    def at(cls, value: float) -> Self:
        return cls(value)

    @classmethod
    def warm(cls, start: Start) -> float:
        return float((start.noise / 2) ** 0.5)

    def reach(self, largest: float) -> float:
        return largest + 20 * self.b

    @property
    def scale(self) -> float:
        return float(2**0.5 * self.b)

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        seed = entropy if isinstance(entropy, Seeded) else Seeded(entropy.bits(60))
        draw = seed.generator("laplace", client).laplace(0.0, self.b, update.values.numel())
        return SparseUpdate(update.values + torch.from_numpy(draw).to(update.values), update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return mechanism.with_noise("gaussian", self.scale)


@dataclass(frozen=True)
class Twice:
    """The Gaussian posterior under another name."""

    name: str = "twice"
    knows: KnowledgeLevel = "candidates"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        return get("gaussian-posterior")(views, restarts=restarts, seed=seed)
