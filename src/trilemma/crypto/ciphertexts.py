"""Paillier ciphertexts as values: a vector, how many vectors were added into it, and its bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from gmpy2 import mpz

from trilemma.errors import ForeignCiphertext, InvalidInput

__all__ = ["HEADER_BYTES", "Ciphertexts"]

_HEADER: Final = struct.Struct("<4s16sIIQ")
_MAGIC: Final = b"TPC1"
HEADER_BYTES: Final = _HEADER.size


@dataclass(frozen=True, repr=False)
class Ciphertexts:
    """A vector of ciphertexts under the key with this fingerprint, the sum of `summands` vectors.

    The count travels with the vector, so that unpacking can refuse a sum that outgrew its slots.
    """

    words: tuple[mpz, ...]
    summands: int
    fingerprint: bytes
    width: int

    def __post_init__(self) -> None:
        if not 1 <= self.summands < 1 << 32:
            raise InvalidInput(f"summands must lie in 1 .. 2^32 - 1, got {self.summands}.")

    def __repr__(self) -> str:
        key = self.fingerprint.hex()[:16]
        return f"Ciphertexts({len(self.words)} words, {self.summands} summands, key {key})"

    def to_bytes(self) -> bytes:
        """The vector for the wire: a header of 36 bytes, then `width` bytes per ciphertext."""
        count, width = len(self.words), self.width
        header = _HEADER.pack(_MAGIC, self.fingerprint, width, self.summands, count)
        return header + b"".join([int(word).to_bytes(width, "little") for word in self.words])

    @classmethod
    def from_bytes(cls, message: bytes) -> Ciphertexts:
        """The vector as sent; only its form is checked, so prefer `PublicKey.receive`."""
        if len(message) < HEADER_BYTES or message[:4] != _MAGIC:
            raise ForeignCiphertext("the message is not a Paillier vector; ask for it again.")
        _, fingerprint, width, summands, count = _HEADER.unpack_from(message)
        if not width or len(message) != HEADER_BYTES + width * count:
            raise ForeignCiphertext(
                f"the message has {len(message)} bytes but announces {count} ciphertexts of "
                f"{width}; it was cut or altered, ask for it again."
            )
        if not summands > 0:
            raise ForeignCiphertext("the message says it holds 0 summands; ask for it again.")
        body = memoryview(message)[HEADER_BYTES:]
        words = tuple(
            mpz(int.from_bytes(body[start : start + width], "little"))
            for start in range(0, len(body), width)
        )
        return cls(words, summands, fingerprint, width)
