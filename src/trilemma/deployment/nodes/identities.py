"""A node's identity, from files that the node itself names, in PEM as openssl writes it."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protection.transports.secret_sharing.identity import Identity, signed_by

__all__ = ["NodeIdentity"]

_LAST: Final[dict[int, bytes]] = {}  # whose key a number had: tried first, and no more
_BLOCK: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class NodeIdentity(Identity):
    """An identity that knows its peers' keys, but not the numbers that the server gives them.

    Each client of a session must be another one of the pinned peers; use it for one session.
    """

    __slots__ = ("_pinned", "_unseen")

    def __init__(self, secret: bytes, pinned: frozenset[bytes]) -> None:
        super().__init__(secret)
        self._pinned: Final = pinned - {self.public}
        self._unseen = set(self._pinned)

    @classmethod
    def load(cls, key_file: Path, peers_file: Path) -> NodeIdentity:
        """A private key, and the public keys of all nodes one after the other."""
        try:
            shown = os.name == "posix" and key_file.stat().st_mode & 0o077
            key = load_pem_private_key(key_file.read_bytes(), None)
            pinned = _public_keys(peers_file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}.") from None
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise InvalidInput(
                f"{key_file} or {peers_file} is no plain PEM key; make keys with "
                "`openssl genpkey -algorithm ed25519`."
            ) from None
        if shown:
            raise InvalidInput(f"{key_file} is open to other users; run chmod 600 on it.")
        if not isinstance(key, Ed25519PrivateKey) or len(pinned) < 2:
            raise InvalidInput(
                f"{key_file} must hold an Ed25519 key and {peers_file} the public keys of all "
                f"nodes, got {type(key).__name__} and {len(pinned)} such keys."
            )
        return cls(key.private_bytes_raw(), pinned)

    def knows(self, client: int, public: bytes) -> bool:
        return public in self._pinned

    def check(
        self, client: int, statement: bytes, signature: bytes, public: bytes | None = None
    ) -> bytes:
        """The key of a pinned peer that was not seen in this session and signed the statement."""
        able = self._unseen if public is None else self._unseen & {public}
        last = _LAST.get(client)
        for key in sorted(able, key=lambda public: public != last):
            if _signed_by(key, statement, signature):
                self._unseen.remove(key)
                _LAST[client] = key
                return key
        raise ProtocolViolation(
            f"the keys shown for client {client} are not signed by a pinned peer of its own; the "
            "server may have swapped them, so this node leaves."
        )


_signed_by = lru_cache(maxsize=4096)(signed_by)  # the nodes of a simulation share a process


@lru_cache(maxsize=1)
def _public_keys(text: bytes) -> frozenset[bytes]:
    """The Ed25519 keys of a file, which all messages and all nodes of a simulation ask for."""
    keys = (load_pem_public_key(block) for block in _BLOCK.findall(text))
    return frozenset(key.public_bytes_raw() for key in keys if isinstance(key, Ed25519PublicKey))
