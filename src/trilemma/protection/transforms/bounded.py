"""The paper's bounded masks: real numbers, uniform on [-r, r], that cancel in the sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.parameter import Parameter
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.quantities import positive

__all__ = ["BoundedMask"]


@dataclass(frozen=True)
class BoundedMask(Tunable):
    """u + M with M uniform on [-r, r] in each coordinate and Σ_k M_k = 0 over the clients.

    Weak, and here to be measured only: each coordinate excludes every candidate that lies more
    than r away, so that a wrong candidate u + d survives with probability Π(1 - |dᵢ|/2r) alone:
    .72 for m = 10⁶ coordinates on [-δ, δ] and a mask as wide as r = 10⁶·δ. Hiding needs
    r ≥ ‖d‖₁/(2τ), which grows with m, while the paper's optimum shrinks towards δ; and masks in
    floating point leave errors of r·2⁻²⁴ in the sum. It needs a secret that all clients share, so
    it takes `Seeded` entropy only: a federation runs `SecretSharing`, whose masks in a ring hide
    perfectly.
    """

    bound: float

    name: ClassVar[str] = "secret-sharing"
    cancels: ClassVar[bool] = True
    parameter: ClassVar[Parameter] = Parameter("r", "bound of the random mask", "larger")
    caveat: ClassVar[str] = (
        "Bounded masks are weak: each coordinate rules out all candidates more than r away, so "
        "they hide less the larger the model, and the server reads the sum without noise."
    )

    def __post_init__(self) -> None:
        bound = positive("bound (r, of the random mask)", self.bound)
        object.__setattr__(self, "bound", bound)

    @classmethod
    def warm(cls, start: Start) -> float:
        """As wide as noise of that variance."""
        return math.sqrt(3 * start.noise)

    def reach(self, largest: float) -> float:
        return largest + self.bound

    @property
    def scale(self) -> float:
        return self.bound / math.sqrt(3)

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        if isinstance(entropy, System):
            raise InvalidInput(
                "bounded masks are weak and exist for measurement with Seeded entropy only; a "
                "federation should use the SecretSharing transport."
            )
        values = update.values
        seat = round.seats[client]
        unit = _masks(values.numel(), len(round.participants), seat, entropy.child(self.name))
        masked = values + (self.bound * unit).to(values.device, values.dtype)
        if update.known is not None:
            masked = masked.masked_fill(~update.known, 0.0)
        return SparseUpdate(masked, update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return mechanism.with_noise("uniform", self.bound)

    def words(self, number: Callable[[float], str]) -> str:
        return f"masks bounded by {number(self.bound)}"


def _masks(size: int, clients: int, seat: int, entropy: Seeded) -> torch.Tensor:
    """One client's mask [size] on [-1, 1]; over the clients they add up to 0 in each coordinate.

    In each coordinate a fresh secret order seats the clients in pairs with masks M and -M (and,
    for an odd number, one trio M, (M + 2 mod 2) - 1, minus both): each mask is uniform, and no
    group but all of them is known to cancel. A single client has nobody to cancel with.
    """
    generator = entropy.torch_generator("masks")
    draws = 2 * torch.rand((clients // 2 or 1, size), dtype=torch.float64, generator=generator) - 1
    if clients == 1:
        return draws[0]
    keys = torch.rand((clients, size), dtype=torch.float64, generator=generator)
    place = (keys < keys[seat]).sum(dim=0)
    pair = torch.clamp(place // 2, max=clients // 2 - 1)
    first = torch.gather(draws, 0, pair.unsqueeze(0)).squeeze(0)
    second = -first
    if clients % 2:
        # M, then M shifted by half its range, and what makes three uniforms add up to zero
        shifted = torch.where(first < 0, first + 1, first - 1)
        trio = place >= clients - 3
        second = torch.where(trio, shifted, second)
        third = -(first + shifted)
        return torch.where(place == clients - 1, third, torch.where(place % 2 == 0, first, second))
    return torch.where(place % 2 == 0, first, second)
