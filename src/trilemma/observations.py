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
    """Noise of known distribution on each coordinate of `Observation.update`.

    `scale` is the standard deviation of a Gaussian, the half-width of a uniform distribution, or b
    of a Laplace distribution with density exp(-|x| / b) / 2b.
    """

    kind: Literal["gaussian", "uniform", "laplace"]
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise InvalidInput(f"noise scale must be finite and not negative, got {self.scale}.")

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return self.scale * {"gaussian": 1.0, "uniform": 3**-0.5, "laplace": 2**0.5}[self.kind]


@dataclass(frozen=True)
class Observation:
    """update = Σ_k weights_k · clip(u_k) + noise on the `known` coordinates; the rest is unread.

    `known` is a mask [m] (None: all). A sum over `clients` updates of S records each is attacked
    as one batch of clients·S records. `weights` has one entry a client (None: 1/clients each), or
    a row [m] of them, zero where the client did not send. `clip` is the norm to which each client
    clipped its update, `limit` the magnitude to which it clipped each coordinate (None: not
    clipped).
    """

    update: torch.Tensor
    known: torch.Tensor | None = None
    noise: Noise | None = None
    weights: tuple[float, ...] | torch.Tensor | None = None
    clip: float | None = None
    clients: int = 1
    limit: float | None = None

    def __post_init__(self) -> None:
        import torch  # heavy: `Adversary` must be had without it

        if self.update.ndim != 1:
            raise InvalidInput(
                f"an observed update is a flat vector, got shape {tuple(self.update.shape)}."
            )
        if self.known is not None and (
            self.known.shape != self.update.shape or self.known.dtype != torch.bool
        ):
            raise InvalidInput(
                f"known must be a boolean mask of the update's shape, got {self.known.dtype} of "
                f"shape {tuple(self.known.shape)}."
            )
        if self.clients < 1 or (self.weights is not None and len(self.weights) != self.clients):
            given = "no" if self.weights is None else len(self.weights)
            raise InvalidInput(
                f"weights must have one entry for each of at least one client, got {given} for "
                f"{self.clients}."
            )
        if isinstance(self.weights, torch.Tensor) and (
            tuple(self.weights.shape) != (self.clients, self.update.numel())
        ):
            raise InvalidInput(
                f"weights must have a row of {self.update.numel()} entries for each of "
                f"{self.clients} clients, got shape {tuple(self.weights.shape)}."
            )
