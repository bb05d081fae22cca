"""Shamir's secret sharing over the field of 2^521 - 1: any t of n shares give the secret."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final

import gmpy2
from gmpy2 import mpz

from trilemma.crypto.sealed import Sealed, require_system
from trilemma.errors import ForeignCiphertext, InvalidInput

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["MAX_SECRET_BYTES", "SHARE_BYTES", "Share", "combine", "split"]

_PRIME: Final = mpz(2) ** 521 - 1
_VALUE_BYTES: Final = 66
_INDEX_BYTES: Final = 2
_CHECK_BYTES: Final = 16
MAX_SECRET_BYTES: Final = 48  # a length byte, the secret and its checksum fit below the prime
SHARE_BYTES: Final = _INDEX_BYTES + _VALUE_BYTES


class Share(Sealed):
    """The point (index, f(index)) of the sharing polynomial f, whose f(0) is the secret."""

    __slots__ = ("_value", "index")

    def __init__(self, index: int, value: int) -> None:
        if not 1 <= index < 1 << (8 * _INDEX_BYTES):
            raise InvalidInput(f"a share's index must lie in 1 .. 65535, got {index}.")
        if not 0 <= value < _PRIME:
            raise ForeignCiphertext("a share lies outside the field; it was altered, ask again.")
        self.index: Final = index
        self._value: Final = value

    def reveal(self) -> bytes:
        """The share's bytes, for the sealed message that carries it."""
        return self.index.to_bytes(_INDEX_BYTES, "big") + int(self._value).to_bytes(
            _VALUE_BYTES, "big"
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Share:
        """The share that `reveal` wrote."""
        if len(data) != SHARE_BYTES:
            raise ForeignCiphertext(
                f"a share has {SHARE_BYTES} bytes, got {len(data)}; ask again."
            )
        return cls(
            int.from_bytes(data[:_INDEX_BYTES], "big"), int.from_bytes(data[_INDEX_BYTES:], "big")
        )


def split(secret: bytes, threshold: int, count: int, entropy: System) -> tuple[Share, ...]:
    """`count` shares of the secret, any `threshold` of which give it back; fewer give nothing.

    f(x) = s + a_1 x + ... + a_(t-1) x^(t-1) mod 2^521 - 1, at x = 1 .. count. As x is small,
    Horner's rule grows by few bits a step and is reduced once, at the end.

    >>> from trilemma.entropy import System
    >>> shares = split(b"key", 2, 3, System())
    >>> combine([shares[2], shares[0]], threshold=2)
    b'key'
    """
    require_system(entropy)
    if not 1 <= threshold <= count < 1 << (8 * _INDEX_BYTES):
        raise InvalidInput(
            f"threshold and count must satisfy 1 <= threshold <= count <= 65535, "
            f"got {threshold} and {count}."
        )
    if len(secret) > MAX_SECRET_BYTES:
        raise InvalidInput(
            f"a secret has at most {MAX_SECRET_BYTES} bytes, got {len(secret)}; share a key "
            "that encrypts the rest."
        )
    coefficients = [mpz(entropy.below(int(_PRIME))) for _ in range(threshold - 1)]
    constant = mpz(int.from_bytes(_encode(secret), "big"))
    shares = []
    for index in range(1, count + 1):
        value = mpz(0)
        for coefficient in coefficients:
            value = (value + coefficient) * index
        shares.append(Share(index, (value + constant) % _PRIME))
    return tuple(shares)


def combine(shares: Sequence[Share], threshold: int) -> bytes:
    """The secret, by Lagrange interpolation at 0 from the first `threshold` shares.

    A checksum inside the secret tells a wrong share, or shares of two secrets, from right ones.
    """
    indices = tuple(share.index for share in shares)
    if len(set(indices)) != len(indices):
        raise InvalidInput(f"shares must have distinct indices, got {sorted(indices)}.")
    if threshold < 1 or len(shares) < threshold:
        raise InvalidInput(f"{threshold} shares are needed, got {len(shares)}; wait for more.")
    weights = _weights(indices[:threshold])
    value = sum(w * share._value for w, share in zip(weights, shares, strict=False)) % _PRIME
    return _decode(int(value))


@lru_cache(maxsize=64)
def _weights(indices: tuple[int, ...]) -> tuple[mpz, ...]:
    """Lagrange's weights at 0: Π_(j != i) x_j / (x_j - x_i); the same survivors share them."""
    product = prod(indices)
    return tuple(
        gmpy2.divm(
            product // x, prod([other - x for other in indices if other != x]) % _PRIME, _PRIME
        )
        for x in indices
    )


def _encode(secret: bytes) -> bytes:
    """secret, padded to 48 bytes, its length and its checksum: 65 bytes, below the prime."""
    checksum = hashlib.sha256(b"trilemma shamir" + secret).digest()[:_CHECK_BYTES]
    return secret.ljust(MAX_SECRET_BYTES, b"\0") + len(secret).to_bytes(1, "big") + checksum


def _decode(value: int) -> bytes:
    data = value.to_bytes(_VALUE_BYTES, "big")[1:]
    secret = data[: data[MAX_SECRET_BYTES]]
    if int.from_bytes(_encode(secret[:MAX_SECRET_BYTES]), "big") != value:
        raise ForeignCiphertext(
            "the shares do not give a secret; one was altered, belongs to another secret, or the "
            "threshold is wrong."
        )
    return secret
