"""The paper's bounded masks: real numbers, uniform on [-r, r], that cancel in the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protections.protocol import Knowledge, Masked, RoundInfo, Transform, check_positive

__all__ = ["BoundedMask"]


@dataclass(frozen=True)
class BoundedMask(Transform):
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
    adds_noise: ClassVar[bool] = True
    cancels: ClassVar[bool] = True
    caveat: ClassVar[str] = (
        "bounded masks are weak: each coordinate rules out all candidates more than r away, so "
        "they hide less the larger the model, and the server reads the sum without noise."
    )

    def __post_init__(self) -> None:
        check_positive("bound (r, of the random mask)", self.bound)

    def apply(
        self, update: Masked, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Masked:
        if isinstance(entropy, System):
            raise InvalidInput(
                "bounded masks are weak and exist for measurement with Seeded entropy only; a "
                "federation should use the SecretSharing transport."
            )
        values = update.values
        seat = round.participants.index(client)
        unit = _masks(values.numel(), len(round.participants), seat, entropy.child(self.name))
        masked = values + (self.bound * unit).to(values.device, values.dtype)
        if update.known is not None:
            masked = masked.masked_fill(~update.known, 0.0)
        return Masked(masked, update.known)

    def reveal(self, knowledge: Knowledge, round: RoundInfo, size: int) -> Knowledge:
        return knowledge.with_noise("uniform", self.bound)

    def describe(self) -> str:
        return f"{self.name}:bound={self.bound!r}"


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
