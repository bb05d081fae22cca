"""Clipping of whole updates, without noise: to one norm, or to a norm of each round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transforms.randomization import Randomization
from trilemma.quantities import finite, positive

if TYPE_CHECKING:
    from trilemma.entropy import Seeded, System
    from trilemma.protection.round_info import RoundInfo

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
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        return _clipped(update, self.norm)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return replace(mechanism, clip=min(self.norm, mechanism.clip or self.norm))

    def words(self, number: Callable[[float], str]) -> str:
        return f"updates clipped to norm {number(self.norm)}"


@dataclass(frozen=True)
class ClippingSchedule(Transform):
    """u · min{1, C_t/‖u‖} + N(0, (noise · C_{t+1})² · I), with a public norm C_t for each round.

    What adaptive clipping comes to, where the server announces the norm of the next round; after
    the last one it stays.
    """

    norms: tuple[float, ...]
    noise: float = 0.0

    name: ClassVar[str] = "clipping-schedule"

    def __post_init__(self) -> None:
        if not self.norms:
            raise InvalidInput("a clipping schedule needs the norm of one round at least.")
        norms = tuple(positive("norms (of clipped updates)", norm) for norm in self.norms)
        object.__setattr__(self, "norms", norms)
        noise = finite("noise (of each coordinate, in units of the norm)", self.noise)
        if noise < 0:
            raise InvalidInput(f"noise must not be negative, got {noise:g}.")
        object.__setattr__(self, "noise", noise)

    def norm(self, round: int) -> float:
        """C_t."""
        return self.norms[min(round, len(self.norms) - 1)]

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        clipped = _clipped(update, self.norm(round.number))
        if not self.noise:
            return clipped
        return self._added(round).apply(clipped, client=client, round=round, entropy=entropy)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        norm = self.norm(round.number)
        clipped = replace(mechanism, clip=min(norm, mechanism.clip or norm))
        return self._added(round).explain(clipped, round, size) if self.noise else clipped

    @property
    def scale(self) -> float:
        return self.noise * self.norms[-1]

    def _added(self, round: RoundInfo) -> Randomization:
        return Randomization((self.noise * self.norm(round.number + 1)) ** 2)

    def describe(self) -> str:
        noise = f",noise={self.noise!r}" if self.noise else ""
        return f"{self.name}:norms={'/'.join(map(repr, self.norms))}{noise}"

    def words(self, number: Callable[[float], str]) -> str:
        first, last = number(self.norms[0]), number(self.norms[-1])
        return f"updates clipped to norms from {first} to {last}"


def _clipped(update: SparseUpdate, norm: float) -> SparseUpdate:
    import torch  # heavy: `trilemma solve` must start without it

    values = update.values.detach().cpu().numpy()
    length = float(np.sqrt(np.linalg.norm(values) ** 2))
    if not length:
        return update
    kept = torch.from_numpy(np.asarray(values * min(1.0, norm / length)))
    return replace(update, values=kept.to(update.values))
