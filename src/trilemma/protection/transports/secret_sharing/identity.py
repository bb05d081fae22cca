"""Who a client is: a long-lived signing key, and the pinned public keys of its peers.

Secure aggregation is safe from a server that follows the protocol. One that hands out keys of its
own in the clients' names, or shows them different lists, would read updates; signatures under
pinned keys stop both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from trilemma.crypto.sealed import Sealed, require_system
from trilemma.errors import InvalidInput, ProtocolViolation

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["SIGNATURE_BYTES", "Identity", "signed_by"]

_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class Identity(Sealed):
    """An Ed25519 key and {client: public key} of the peers, from the client's own settings.

    >>> from trilemma.entropy import System
    >>> alice, bob = Identity.generate(System()), Identity.generate(System())
    >>> bob.pin({0: alice.public}).check(0, b"hello", alice.sign(b"hello")) == alice.public
    True
    """

    __slots__ = ("_key", "peers", "public")

    def __init__(self, secret: bytes, peers: Mapping[int, bytes] | None = None) -> None:
        if len(secret) != _KEY_BYTES:
            raise InvalidInput(f"an identity key has {_KEY_BYTES} bytes, got {len(secret)}.")
        self._key: Final = Ed25519PrivateKey.from_private_bytes(secret)
        self.public: Final = self._key.public_key().public_bytes_raw()
        self.peers: Final = dict(peers or {})
        for peer, public in self.peers.items():
            if len(public) != _KEY_BYTES:
                raise InvalidInput(
                    f"the public key of peer {peer} has {len(public)} bytes instead of "
                    f"{_KEY_BYTES}; pin the key that the peer made."
                )

    @classmethod
    def generate(cls, entropy: System) -> Identity:
        """A new identity that knows nobody yet."""
        return Identity(require_system(entropy).bytes(_KEY_BYTES))

    @classmethod
    def pinned(cls, clients: Iterable[int], entropy: System) -> dict[int, Identity]:
        """A new identity for each client, all of which have pinned each other."""
        made = {client: cls.generate(entropy) for client in clients}
        public = {client: value.public for client, value in made.items()}
        return {client: value.pin(public) for client, value in made.items()}

    def pin(self, peers: Mapping[int, bytes]) -> Identity:
        """The same identity, with these peers."""
        return Identity(self.reveal(), peers)

    def reveal(self) -> bytes:
        """The private key's bytes, for a file of the client's own."""
        return self._key.private_bytes_raw()

    def sign(self, statement: bytes) -> bytes:
        """The signature of the statement."""
        return self._key.sign(statement)

    def knows(self, client: int, public: bytes) -> bool:
        """Whether a key that the server names for a client is pinned."""
        return self.peers.get(client) == public

    def check(
        self, client: int, statement: bytes, signature: bytes, public: bytes | None = None
    ) -> bytes:
        """The pinned key of `client` (which is `public`, if named): it signed the statement."""
        if client not in self.peers:
            raise ProtocolViolation(
                f"client {client} is not pinned; add its public key to the peers, or leave it out."
            )
        named = public is None or self.knows(client, public)
        if not named or not signed_by(self.peers[client], statement, signature):
            raise ProtocolViolation(
                f"the keys shown for client {client} are not signed by it; the server may have "
                "swapped them, so leave."
            )
        return self.peers[client]


def signed_by(public: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed the statement."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except InvalidSignature:
        return False
    return True
