"""What a client advertises: its keys of the round, signed where its peers have pinned it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trilemma.errors import ProtocolViolation
from trilemma.protection.transports.secret_sharing.identity import SIGNATURE_BYTES, Identity

__all__ = [
    "ADVERT_BYTES",
    "KEY_BYTES",
    "SIGNED_BYTES",
    "advertise",
    "authentic",
    "check_adverts",
    "message_key",
    "named",
]

KEY_BYTES: Final = 32
ADVERT_BYTES: Final = 2 * KEY_BYTES  # the key for masks, and the one for messages
SIGNED_BYTES: Final = ADVERT_BYTES + SIGNATURE_BYTES


def advertise(
    keys: bytes, client: int, digest: bytes, identity: Identity | None, *, name: bool = False
) -> bytes:
    """A client's two keys; with an identity its signature, and the identity's key if `name`."""
    if identity is None:
        return keys
    signed = keys + identity.sign(_statement(digest, client, keys))
    return signed + identity.public if name else signed


def named(shown: Mapping[int, bytes]) -> dict[int, bytes]:
    """The identities' keys that stand behind the signatures."""
    return {client: value[SIGNED_BYTES:] for client, value in shown.items()}


def check_adverts(
    shown: Mapping[int, bytes], client: int, keys: bytes, identity: Identity | None, *, name: bool
) -> None:
    """Raises unless all clients show different keys, the client its own.

    Where all must `name` their identities each of these must be pinned, and no two the same: who
    sits where is settled then, though nothing but a few signatures is checked.
    """
    if any(len(value) < ADVERT_BYTES for value in shown.values()):
        raise ProtocolViolation(
            f"of the keys of {len(shown)} clients some do not have {ADVERT_BYTES} bytes; leave."
        )
    if shown[client][:ADVERT_BYTES] != keys:
        raise ProtocolViolation(
            f"the server shows another key for client {client} than it advertised; it would read "
            "what is sent to it, so leave."
        )
    if len({value[:KEY_BYTES] for value in shown.values()}) < len(shown):
        raise ProtocolViolation("two clients advertise the same key; one is forged, so leave.")
    if identity is None or not name:
        return
    identities = named(shown)
    if identities[client] != identity.public or len(set(identities.values())) < len(identities):
        raise ProtocolViolation(
            f"the server names client {client} by another identity than its own, or two of "
            f"{len(identities)} clients by one; leave."
        )
    for peer, public in identities.items():
        if peer != client and not identity.knows(peer, public):
            raise ProtocolViolation(
                f"the server names an identity for client {peer} that is not pinned; add it to "
                "the peers, or leave that client out."
            )


def authentic(
    shown: Mapping[int, bytes],
    chosen: Iterable[int],
    client: int,
    digest: bytes,
    identity: Identity | None,
) -> dict[int, bytes]:
    """The keys of the chosen clients, where peers are pinned with the identity that signed."""
    taken = {peer: shown[peer][:ADVERT_BYTES] for peer in chosen}
    if identity is None:
        return taken
    for peer, keys in taken.items():
        pin = identity.public
        if peer != client:
            signature, public = shown[peer][ADVERT_BYTES:SIGNED_BYTES], shown[peer][SIGNED_BYTES:]
            statement = _statement(digest, peer, keys)
            pin = identity.check(peer, statement, signature, public or None)
        taken[peer] = keys + pin
    return taken


def message_key(keys: bytes) -> bytes:
    """The second of a client's keys."""
    return keys[KEY_BYTES:ADVERT_BYTES]


def _statement(digest: bytes, client: int, keys: bytes) -> bytes:
    """What a client signs: its keys, bound to this round and to itself."""
    return b"trilemma keys" + digest + client.to_bytes(8, "big") + keys
