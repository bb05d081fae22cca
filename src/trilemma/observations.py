"""What an adversary can read of one round, and what it knows of how that was made.

Mechanisms produce observations and attacks consume them; neither room knows the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    import torch

__all__ = ["Adversary", "Noise", "Observation"]


class Adversary(StrEnum):
    """Who is curious: the server (the paper's adversary) or one of the other clients."""

    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True)
class Noise:
    """Noise of known law on each coordinate of `Observation.update`.

    `scale` is the standard deviation of a Gaussian, or the half-width of a uniform law.
    """

    kind: Literal["gaussian", "uniform"]
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise InvalidInput(f"noise scale must be finite and not negative, got {self.scale}.")


@dataclass(frozen=True)
class Observation:
    """update = Σ_k weights_k · clip(u_k) + noise on the `known` coordinates; the rest is unread.

    `known` is a mask [m] (None: all). A sum over `clients` updates of S records each is attacked
    as one batch of clients·S records. `weights` has one entry a client (None: 1/clients each), or
    a row [m] of them, zero where the client did not send. `clip` is the norm to which each client
    clipped its update (None: not clipped).
    """

    update: torch.Tensor
    known: torch.Tensor | None = None
    noise: Noise | None = None
    weights: tuple[float, ...] | torch.Tensor | None = None
    clip: float | None = None
    clients: int = 1

    def __post_init__(self) -> None:
        import torch  # heavy: `Adversary` must be had without it

        if self.update.ndim != 1:
            raise InvalidInput(
                f"an observed update is a flat vector, got shape {tuple(self.update.shape)}."
            )
        if self.known is not None and (
            self.known.shape != self.update.shape or self.known.dtype != torch.bool
        ):
            raise InvalidInput("known must be a boolean mask of the update's shape.")
        if self.clients < 1 or (self.weights is not None and len(self.weights) != self.clients):
            raise InvalidInput("weights must have one entry for each of at least one client.")
        if isinstance(self.weights, torch.Tensor) and (
            tuple(self.weights.shape) != (self.clients, self.update.numel())
        ):
            raise InvalidInput(
                f"weights must have a row of {self.update.numel()} entries for each of "
                f"{self.clients} clients, got shape {tuple(self.weights.shape)}."
            )
