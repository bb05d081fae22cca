"""Quantisation: each coordinate in few bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.quantities import positive, whole

if TYPE_CHECKING:
    from trilemma.entropy import Seeded, System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Quantisation"]


@dataclass(frozen=True)
class Quantisation(Transform):
    """The nearest of 2^bits even levels from -reach to reach, which coordinates are clipped to.

    One bit is the sign. An attacker knows that what is sent is off by half a step at most.
    """

    bits: int
    reach: float = 1.0

    name: ClassVar[str] = "quantisation"

    def __post_init__(self) -> None:
        if not 1 <= whole("bits", self.bits) <= 16:
            raise InvalidInput(f"bits (of a coordinate) must lie in 1 .. 16, got {self.bits}.")
        reach = positive("reach (largest value that is sent)", self.reach)
        object.__setattr__(self, "reach", reach)

    @property
    def step(self) -> float:
        """The distance between two levels."""
        return 2 * self.reach / float(2**self.bits - 1)

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        clipped = update.values.clamp(-self.reach, self.reach)
        sent = ((clipped + self.reach) / self.step).round() * self.step - self.reach
        if update.known is not None:
            sent = sent.masked_fill(~update.known, 0.0)
        return replace(update, values=sent)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        limited = replace(mechanism, limit=min(self.reach, mechanism.limit or self.reach))
        if limited.noise is not None:
            return limited
        return limited.with_noise("uniform", self.step / 2)

    def words(self, number: Callable[[float], str]) -> str:
        return f"coordinates of {self.bits} bits between ±{number(self.reach)}"
