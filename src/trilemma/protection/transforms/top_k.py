"""Top-k: send the largest coordinates only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.quantities import positive

if TYPE_CHECKING:
    from trilemma.entropy import Seeded, System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["TopK"]


@dataclass(frozen=True)
class TopK(Transform):
    """Sends the ⌈keep·m⌉ coordinates of largest magnitude, as they are.

    Which ones are sent depends on the values and so leaks: `Protection` refuses it where single
    updates are to be hidden.
    """

    keep: float

    name: ClassVar[str] = "top-k"
    thins: ClassVar[bool] = True
    selects_by_value: ClassVar[bool] = True
    caveat: ClassVar[str] = "Top-k shows which coordinates are large."

    def __post_init__(self) -> None:
        keep = positive("keep (fraction of coordinates that are sent)", self.keep)
        if keep > 1:
            raise InvalidInput(
                f"keep (fraction of coordinates that are sent) must lie in (0, 1], got {keep:g}."
            )
        object.__setattr__(self, "keep", keep)

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        import torch  # heavy: `trilemma solve` must start without it

        values = update.values
        count = max(1, math.ceil(self.keep * values.numel()))
        largest = torch.topk(values.abs(), count, sorted=False).indices
        known = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        known[largest] = True
        if update.known is not None:
            known &= update.known
        return SparseUpdate(values.masked_fill(~known, 0.0), known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return mechanism  # each message says which coordinates it holds

    def words(self, number: Callable[[float], str]) -> str:
        return f"compression to the largest {number(100 * self.keep)} % of the coordinates"
