"""Masks that cancel in the sum: AES-256-CTR keystreams from X25519 + HKDF, in Z_2^32 or Z_2^64.

Client u sends y_u = x_u + PRG(b_u) + Σ_(v > u) PRG(s_uv) - Σ_(v < u) PRG(s_uv): uniform to who
knows none of the seeds, and the pairwise terms cancel over all clients (Bonawitz et al.). Seeds
are bound to (run, round, u, v), so that no two rounds, runs or pairs share a mask.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trilemma.crypto.sealed import Sealed, require_system
from trilemma.errors import ForeignCiphertext, InvalidInput
from trilemma.quantities import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.crypto.packing import FixedPoint, WeightedSum
    from trilemma.entropy import System

__all__ = [
    "SEED_BYTES",
    "KeyPair",
    "Ring",
    "RoundContext",
    "Seed",
    "check_threshold",
    "mask",
    "pairwise_seeds",
    "seal",
    "unseal",
]

SEED_BYTES: Final = 32
_CHUNK_BYTES: Final = 1 << 17  # keystream, values and zeros of one step stay in the cache
_BLOCK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_FIRST_COUNTER: Final = (2).to_bytes(_BLOCK_BYTES, "big")
_MAX_BYTES: Final = (1 << 36) - 32  # of one stream, in GCM's counter mode


@dataclass(frozen=True)
class RoundContext:
    """The run and the round that keys are bound to: HKDF info = (purpose, run, round, u, v).

    `shown` is a digest of what the server showed the client besides, such as a model: masks of two
    clients that were shown different things do not cancel.
    """

    run: str
    number: int
    shown: bytes = b""

    def __post_init__(self) -> None:
        if not self.run:
            raise InvalidInput(
                f"run (the name that keys are bound to) must not be empty, got {self.run!r}."
            )
        if not 0 <= self.number < 1 << 64:
            raise InvalidInput(
                f"number of the round must lie in 0 .. 2^64 - 1, got {self.number}."
            )

    def info(self, purpose: str, *parties: int) -> bytes:
        """Each part with its length, so that no two contexts give the same bytes."""
        for party in parties:
            if not 0 <= party < 1 << 64:
                raise InvalidInput(f"a client's number must lie in 0 .. 2^64 - 1, got {party}.")
        numbers = [number.to_bytes(8, "big") for number in (self.number, *parties)]
        names = b"trilemma secure aggregation", purpose.encode(), self.run.encode(), self.shown
        parts = [*names, *numbers]
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class Seed(Sealed):
    """The 32-byte key of one keystream. Use it for one vector: a second would share the mask."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != SEED_BYTES:
            raise InvalidInput(f"a seed has {SEED_BYTES} bytes, got {len(key)}.")
        self._key: Final = bytes(key)

    @classmethod
    def generate(cls, entropy: System) -> Seed:
        """A fresh seed: the self-mask b_u."""
        return cls(require_system(entropy).bytes(SEED_BYTES))

    def reveal(self) -> bytes:
        """The seed's bytes, to be split into shares."""
        return self._key

    def keystream(self) -> CipherContext:
        """AES-256 in counter mode: the encryptions of the numbers 2, 3, ..."""
        return Cipher(algorithms.AES256(self._key), _fastest_mode()).encryptor()


@cache
def _fastest_mode() -> modes.CTR | modes.GCM:
    """Bare counter mode, or that inside GCM (which starts at 2): what this CPU does faster.

    The two streams are equal byte for byte, so that clients may differ in their choice. OpenSSL
    uses wide vector AES in GCM alone, where the processor has it.
    """
    zeros, buffer = bytes(_CHUNK_BYTES), bytearray(_CHUNK_BYTES + _BLOCK_BYTES)

    def spent(mode: modes.CTR | modes.GCM) -> float:
        cipher, best = Cipher(algorithms.AES256(bytes(SEED_BYTES)), mode).encryptor(), math.inf
        for _ in range(5):
            start = time.perf_counter()
            cipher.update_into(zeros, buffer)
            best = min(best, time.perf_counter() - start)
        return best

    bare, inside = modes.CTR(_FIRST_COUNTER), modes.GCM(bytes(_NONCE_BYTES))
    return bare if spent(bare) <= spent(inside) else inside


class KeyPair(Sealed):
    """An X25519 key pair; each client makes two a round, one for masks and one for messages."""

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SEED_BYTES:
            raise InvalidInput(f"an X25519 key has {SEED_BYTES} bytes, got {len(secret)}.")
        self._private: Final = X25519PrivateKey.from_private_bytes(secret)
        self.public: Final = self._private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, entropy: System) -> KeyPair:
        return cls(require_system(entropy).bytes(SEED_BYTES))

    def reveal(self) -> bytes:
        """The private key's bytes, to be split into shares."""
        return self._private.private_bytes_raw()

    def derive(self, peer: bytes, info: bytes) -> bytes:
        """32 bytes that both ends alone can compute: HKDF-SHA256(X25519(own, peer), info)."""
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError:
            raise InvalidInput(
                "a peer's public key is not a usable X25519 key; leave that client out."
            ) from None
        salt = b"".join(sorted((self.public, peer)))
        return HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=salt, info=info).derive(shared)


def pairwise_seeds(
    own: KeyPair, me: int, peers: Mapping[int, bytes], context: RoundContext
) -> tuple[list[Seed], list[Seed]]:
    """(seeds to add, seeds to subtract) of client `me` towards `peers` {number: public key}.

    The lower number adds, the higher subtracts the same stream. The server recovers a dropped
    client's masks with the same call, from the key pair that the survivors' shares give back.
    """
    if me in peers:
        raise InvalidInput(f"client {me} cannot be its own peer; leave it out of peers.")
    add: list[Seed] = []
    subtract: list[Seed] = []
    for peer, public in sorted(peers.items()):
        info = context.info("mask", min(me, peer), max(me, peer))
        (add if me < peer else subtract).append(Seed(own.derive(public, info)))
    return add, subtract


def mask(
    values: NDArray[Any], *, add: Iterable[Seed] = (), subtract: Iterable[Seed] = ()
) -> NDArray[Any]:
    """A copy of the ring vector with keystreams added and subtracted; swap the two to unmask.

    >>> seed, x = Seed(bytes(32)), np.arange(3, dtype=np.uint32)
    >>> mask(mask(x, add=[seed]), subtract=[seed])
    array([0, 1, 2], dtype=uint32)
    """
    if values.ndim != 1 or values.dtype not in (np.uint32, np.uint64):
        raise InvalidInput(
            f"masks live in flat arrays of uint32 or uint64, got {values.dtype} of shape "
            f"{values.shape}; encode the update with Ring first."
        )
    if values.nbytes > _MAX_BYTES:
        raise InvalidInput(f"one mask covers {_MAX_BYTES} bytes, got {values.nbytes}; split it.")
    streams: list[tuple[CipherContext, np.ufunc]] = [(seed.keystream(), np.add) for seed in add]
    streams += [(seed.keystream(), np.subtract) for seed in subtract]
    if not streams:
        return values.copy()
    masked = np.empty_like(values)
    chunk = _CHUNK_BYTES // values.itemsize
    zeros = memoryview(bytes(min(_CHUNK_BYTES, values.nbytes)))
    buffer = bytearray(len(zeros) + _BLOCK_BYTES)
    stream = np.frombuffer(buffer, values.dtype.newbyteorder("<"), len(zeros) // values.itemsize)
    for start in range(0, len(masked), chunk):
        part = masked[start : start + chunk]
        source = values[start : start + len(part)]
        plain, words = zeros[: part.nbytes], stream[: len(part)]
        for cipher, combine in streams:
            cipher.update_into(plain, buffer)
            combine(source, words, out=part)
            source = part
    return masked


def seal(
    own: KeyPair,
    peer: bytes,
    message: bytes,
    *,
    context: RoundContext,
    sender: int,
    receiver: int,
    entropy: System,
) -> bytes:
    """The message for `receiver` alone: ChaCha20-Poly1305 under a key of this round and direction.

    The server that relays it can neither read, alter, redirect nor replay it in another round.
    """
    nonce = require_system(entropy).bytes(_NONCE_BYTES)
    info = context.info("message", sender, receiver)
    return nonce + ChaCha20Poly1305(own.derive(peer, info)).encrypt(nonce, message, info)


def unseal(
    own: KeyPair,
    peer: bytes,
    sealed: bytes,
    *,
    context: RoundContext,
    sender: int,
    receiver: int,
) -> bytes:
    """The message that `sender` sealed for us, or `ForeignCiphertext`."""
    info = context.info("message", sender, receiver)
    nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    try:
        if len(nonce) < _NONCE_BYTES:
            raise InvalidTag
        return ChaCha20Poly1305(own.derive(peer, info)).decrypt(nonce, body, info)
    except InvalidTag:
        raise ForeignCiphertext(
            f"the message from client {sender} to {receiver} was altered, or sealed for another "
            "round or client; do not use it."
        ) from None


def check_threshold(threshold: int, clients: int, *, pinned: bool = False) -> None:
    """Raises unless n/2 < t <= n, or 2n/3 < t where identities are pinned against a liar.

    Half: two disjoint survivor lists would yield both kinds of share. Two thirds: lists that t
    clients signed are the same for all even where a third of the clients sign any.
    """
    least, share = (clients * 2 // 3 + 1, "two thirds") if pinned else (clients // 2 + 1, "half")
    if not least <= threshold <= clients:
        who = f"{clients} clients{', as their identities are pinned,' if pinned else ''}"
        raise InvalidInput(
            f"threshold must lie above {share} of the {who} and not above all of them, got "
            f"{threshold}; use {clients * 2 // 3 + 1} or another in {least} .. {clients}."
        )


@dataclass(frozen=True)
class Ring:
    """Fixed-point updates in Z_2^bits: [w, w q_1, ..., w q_m], negatives as two's complement.

    A sum cannot wrap round: levels max_weight < 2^(bits-1).

    >>> from trilemma.crypto.packing import FixedPoint
    >>> ring = Ring(FixedPoint(clip=1.0, max_weight=10))
    >>> ring.decode(ring.encode(np.array([-1.0, 0.5]), 2), summands=1).mean.round(4)
    array([-1. ,  0.5])
    """

    fixed: FixedPoint
    bits: int = 32

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", whole("bits of the ring", self.bits))
        if self.bits not in (32, 64):
            raise InvalidInput(f"bits of the ring must be 32 or 64, got {self.bits}.")
        if self.fixed.levels * self.fixed.max_weight >= 1 << (self.bits - 1):
            raise InvalidInput(
                f"a sum of {self.fixed.bits}-bit values with a max_weight of "
                f"{self.fixed.max_weight} can wrap round in {self.bits} bits; use 64, or "
                "lower one of them."
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(f"uint{self.bits}")

    @property
    def max_summands(self) -> int:
        """Vectors whose weights cannot wrap round, however large each one is."""
        return min(self.fixed.max_weight, ((1 << self.bits) - 1) // self.fixed.max_weight)

    def encode(self, values: NDArray[Any], weight: int = 1) -> NDArray[Any]:
        """The update as ring elements, its weight first."""
        weight = self.fixed.check_weight(weight)
        ring = np.empty(len(values) + 1, self.dtype)
        ring[0], end = weight, 1
        for units in self.fixed.blocks(values, weight):
            ring[end : end + len(units)] = units.astype(self.dtype)
            end += len(units)
        return ring

    def decode(self, ring: NDArray[Any], summands: int) -> WeightedSum:
        """The sum of `summands` updates; an unremoved mask or too large a weight raises."""
        if ring.dtype != self.dtype or ring.ndim != 1 or not len(ring):
            raise InvalidInput(f"expected a flat array of {self.dtype}, got {ring.dtype}.")
        if not 1 <= summands <= self.max_summands:
            raise InvalidInput(
                f"a sum of {summands} updates cannot be decoded, as the ring holds 1 .. "
                f"{self.max_summands}; raise max_weight or use 64 bits."
            )
        return self.fixed.sum(ring[1:].view(f"int{self.bits}"), int(ring[0]), summands)
