"""A node's identity key and the peers it knows, so that a server cannot swap advertised keys.

Both come from files that the node itself names, in PEM as openssl writes it: an Ed25519 private
key, and the public keys of all peers one after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from trilemma.crypto.sealed import Sealed
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.mechanisms.protocol import RoundInfo

__all__ = ["Identity"]

_KEY_BYTES: Final = 32
_BLOCK: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class Identity(Sealed):
    """Signs what this node advertises, and accepts what other pinned peers have signed."""

    def __init__(self, key: Ed25519PrivateKey, peers: frozenset[bytes]) -> None:
        self._key, self.peers = key, peers
        self.public: Final = key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, key_file: Path, peers_file: Path) -> Identity:
        """The identity that these files hold."""
        try:
            if os.name == "posix" and key_file.stat().st_mode & 0o077:
                raise InvalidInput(f"{key_file} is open to other users; run chmod 600 on it.")
            key = load_pem_private_key(key_file.read_bytes(), None)
            blocks = _BLOCK.findall(peers_file.read_bytes())
            peers = [load_pem_public_key(block) for block in blocks]
        except OSError as error:
            raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}.") from None
        except ValueError:
            raise InvalidInput(
                f"{key_file} or {peers_file} is no PEM key; make keys with "
                "`openssl genpkey -algorithm ed25519`."
            ) from None
        if not isinstance(key, Ed25519PrivateKey) or len(peers) < 2:
            raise InvalidInput(
                f"{key_file} must hold an Ed25519 key and {peers_file} the public keys of all "
                f"peers, got {type(key).__name__} and {len(peers)} of them."
            )
        pinned = {each.public_bytes_raw() for each in peers if isinstance(each, Ed25519PublicKey)}
        return cls(key, frozenset(pinned))

    def sign(self, round: RoundInfo, seat: int, keys: bytes) -> bytes:
        """The node's public key, and its signature of the keys that it advertises."""
        return self.public + self._key.sign(_signed(round, seat, keys))

    def check(
        self, round: RoundInfo, advertised: Mapping[int, bytes], signed: Mapping[int, bytes]
    ) -> None:
        """Raises unless each client's keys are signed, each by another of the pinned peers."""
        seen: set[bytes] = set()
        for seat, keys in advertised.items():
            proof = signed.get(seat, b"")
            public, signature = proof[:_KEY_BYTES], proof[_KEY_BYTES:]
            try:
                if public not in self.peers or public in seen:
                    raise InvalidSignature
                Ed25519PublicKey.from_public_bytes(public).verify(
                    signature, _signed(round, seat, keys)
                )
            except InvalidSignature:
                raise ProtocolViolation(
                    f"the keys that the server shows for client {seat} in round {round.number} "
                    "are not signed by a pinned peer of their own; it may have swapped them, so "
                    "this node leaves."
                ) from None
            seen.add(public)


def _signed(round: RoundInfo, seat: int, keys: bytes) -> bytes:
    return b"".join(
        (b"trilemma advertised keys", round.digest(b"identity"), seat.to_bytes(8, "little"), keys)
    )
