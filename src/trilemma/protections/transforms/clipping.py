"""Clipping of whole updates, without noise: to one norm, or to a norm of each round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.protections.texts import described
from trilemma.protections.transforms.base import Making, Partial, Transform
from trilemma.quantities import positive

if TYPE_CHECKING:
    from trilemma.entropy import Seeded, System
    from trilemma.protections.round_info import RoundInfo

__all__ = ["Clipping", "ClippingSchedule"]


@dataclass(frozen=True)
class Clipping(Transform):
    """u · min{1, C/‖u‖}: Flower's `fixedclipping_mod`, bit for bit on one array.

    It hides how long an update is, never where it points.
    """

    norm: float

    name: ClassVar[str] = "clipping"

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", positive("norm (of a clipped update)", self.norm))

    def apply(
        self, update: Partial, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Partial:
        return _clipped(update, self.norm)

    def explain(self, making: Making, round: RoundInfo, size: int) -> Making:
        return replace(making, clip=min(self.norm, making.clip or self.norm))

    def describe(self) -> str:
        return described(self, self.name)

    def words(self, number: Callable[[float], str]) -> str:
        return f"updates clipped to norm {number(self.norm)}"


@dataclass(frozen=True)
class ClippingSchedule(Transform):
    """u · min{1, C_t/‖u‖} with a public norm for each round; after the last one, the last.

    What adaptive clipping comes to, where the server announces the norm of the next round.
    """

    norms: tuple[float, ...]

    name: ClassVar[str] = "clipping-schedule"

    def __post_init__(self) -> None:
        if not self.norms:
            raise InvalidInput("a clipping schedule needs the norm of one round at least.")
        norms = tuple(positive("norms (of clipped updates)", norm) for norm in self.norms)
        object.__setattr__(self, "norms", norms)

    def norm(self, round: int) -> float:
        """C_t."""
        return self.norms[min(round, len(self.norms) - 1)]

    def apply(
        self, update: Partial, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Partial:
        return _clipped(update, self.norm(round.number))

    def explain(self, making: Making, round: RoundInfo, size: int) -> Making:
        norm = self.norm(round.number)
        return replace(making, clip=min(norm, making.clip or norm))

    def describe(self) -> str:
        return f"{self.name}:norms={'/'.join(map(repr, self.norms))}"

    def words(self, number: Callable[[float], str]) -> str:
        first, last = number(self.norms[0]), number(self.norms[-1])
        return f"updates clipped to norms from {first} to {last}"


def _clipped(update: Partial, norm: float) -> Partial:
    import torch  # heavy: `trilemma solve` must start without it

    values = update.values.detach().cpu().numpy()
    length = float(np.sqrt(np.linalg.norm(values) ** 2))
    if not length:
        return update
    kept = torch.from_numpy(np.asarray(values * min(1.0, norm / length)))
    return replace(update, values=kept.to(update.values))
