"""The largest coordinates, clipped one by one: NVFlare's `PercentilePrivacy`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.quantities import counted, finite

if TYPE_CHECKING:
    from trilemma.entropy import Seeded, System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Percentile"]


@dataclass(frozen=True)
class Percentile(Transform):
    """E · clamp(u/E, ±γ) where |u/E| is not below its percentile, 0 elsewhere; E local steps.

    Bit for bit what NVFlare's filter makes of arrays. As there, γ ≤ 0 or a percentile outside of
    0 .. 100 filters nothing at all.
    """

    percentile: float = 10.0
    gamma: float = 0.01
    steps: int = 1

    name: ClassVar[str] = "percentile"
    thins: ClassVar[bool] = True
    selects_by_value: ClassVar[bool] = True
    caveat: ClassVar[str] = (
        "The percentile filter adds no noise: it is no differential privacy, and shows which "
        "coordinates are large."
    )

    def __post_init__(self) -> None:
        for name in ("percentile", "gamma"):
            object.__setattr__(self, name, finite(name, getattr(self, name)))
        counted("steps (local steps of a round)", self.steps)

    @property
    def works(self) -> bool:
        """Whether anything is filtered."""
        return self.gamma > 0 and 0 <= self.percentile <= 100

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        import torch  # heavy: `trilemma solve` must start without it

        if not self.works:
            return update
        a_step = update.values.detach().cpu().numpy() / self.steps
        cutoff = np.percentile(np.abs(a_step), self.percentile)
        a_step[(a_step > -cutoff) & (a_step < cutoff)] = 0.0
        sent = np.clip(a_step, -self.gamma, self.gamma) * self.steps
        values = torch.from_numpy(np.asarray(sent)).to(update.values)
        known = values != 0
        return SparseUpdate(values, known if update.known is None else known & update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return replace(mechanism, limit=self.gamma * self.steps) if self.works else mechanism

    def words(self, number: Callable[[float], str]) -> str:
        kept = number(max(0.0, 100 - self.percentile))
        return f"the largest {kept} % of the coordinates, each clipped to {number(self.gamma)}"
