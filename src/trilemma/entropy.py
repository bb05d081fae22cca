"""The one source of randomness: `Seeded` for measurement, `System` for secrets.

The two are unrelated types on purpose. Cryptography accepts `System` only, so a seed can never
become a key by accident; measurement accepts `Seeded` only, so a result can always be repeated.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    import torch

__all__ = ["Seeded", "System"]

_SEED_BITS: Final = 63  # torch.Generator takes a signed 64-bit seed


@dataclass(frozen=True)
class Seeded:
    """Repeatable randomness as a tree: each path of names is an independent stream.

    A stream depends on its path alone, never on how many numbers other streams gave, so chunks
    can run in any order, or again after a crash, and draw the same numbers.

    >>> a = Seeded(7).generator("client", 3).random()
    >>> a == Seeded(7).generator("client", 3).random()
    True
    >>> a == Seeded(7).generator("client", 4).random()
    False
    """

    seed: int

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidInput(f"seed must be a non-negative integer, got {self.seed!r}.")

    def integer(self, *path: str | int) -> int:
        """A 63-bit integer: SHA-256 of the seed and the path, each part tagged with its type."""
        text = repr((self.seed, path)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - _SEED_BITS)

    def child(self, *path: str | int) -> Seeded:
        """The subtree below `path`."""
        return Seeded(self.integer(*path))

    def generator(self, *path: str | int) -> np.random.Generator:
        """A NumPy generator for `path`."""
        return np.random.default_rng(self.integer(*path))

    def torch_generator(
        self, *path: str | int, device: torch.device | str = "cpu"
    ) -> torch.Generator:
        """A torch generator for `path` on `device`."""
        import torch  # heavy: `trilemma solve` must start without it

        return torch.Generator(device=device).manual_seed(self.integer(*path))


class System:
    """The operating system's CSPRNG, for keys, masks and noise that leaves this process."""

    def bytes(self, count: int) -> bytes:
        """`count` secret bytes."""
        return secrets.token_bytes(count)

    def below(self, limit: int) -> int:
        """A secret integer, uniform on 0 .. limit - 1."""
        return secrets.randbelow(limit)

    def bits(self, count: int) -> int:
        """A secret integer, uniform on 0 .. 2^count - 1."""
        return secrets.randbits(count)
