"""Omission: some of the model's tensors never leave the client. NVFlare's `ExcludeVars`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform

if TYPE_CHECKING:
    import torch

    from trilemma.entropy import Seeded, System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Omission"]


@dataclass(frozen=True)
class Omission(Transform):
    """Sends all coordinates but those of `dropped`, pairs (start, stop) of places."""

    dropped: tuple[tuple[int, int], ...]

    name: ClassVar[str] = "omission"
    thins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.dropped or any(not 0 <= start < stop for start, stop in self.dropped):
            raise InvalidInput(
                f"dropped must be pairs (start, stop) of places with start < stop, got "
                f"{self.dropped}; write omission:dropped=0-640."
            )

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        known = self._kept(update.values.numel()).to(update.values.device)
        if update.known is not None:
            known &= update.known
        return SparseUpdate(update.values.masked_fill(~known, 0.0), known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        known = self._kept(size)
        if mechanism.known is not None:
            known &= mechanism.known
        return replace(mechanism, known=known)

    def describe(self) -> str:
        spans = "/".join(f"{start}-{stop}" for start, stop in self.dropped)
        return f"{self.name}:dropped={spans}"

    def words(self, number: Callable[[float], str]) -> str:
        count = sum(stop - start for start, stop in self.dropped)
        return f"all but {number(count)} coordinates"

    def _kept(self, size: int) -> torch.Tensor:
        import torch  # heavy: `trilemma solve` must start without it

        known = torch.ones(size, dtype=torch.bool)
        for start, stop in self.dropped:
            known[start:stop] = False
        return known
