"""What a client advertises: its keys of the round, signed where its peers have pinned it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trilemma.errors import ProtocolViolation
from trilemma.protections.transports.secret_sharing.identity import Identity

__all__ = ["ADVERT_BYTES", "KEY_BYTES", "advertise", "authentic", "message_key"]

KEY_BYTES: Final = 32
ADVERT_BYTES: Final = 2 * KEY_BYTES  # the key for masks, and the one for messages


def advertise(keys: bytes, client: int, digest: bytes, identity: Identity | None) -> bytes:
    """A client's two keys, and its signature if it has an identity."""
    return keys if identity is None else keys + identity.sign(_statement(digest, client, keys))


def authentic(
    shown: Mapping[int, bytes],
    own: Mapping[int, bytes],
    digest: bytes,
    identity: Identity | None,
    named: Mapping[int, bytes] | None = None,
) -> dict[int, bytes]:
    """The keys of each client shown and, where peers are pinned, the identity that signed them.

    `own` holds the client's keys by its number. In a graph, where the keys of few are shown,
    `named` are the identities of all clients of the round, each of which must be pinned.
    """
    ((client, mine),) = own.items()
    nobody = set() if named is None else set(shown) - set(named)
    if nobody or min(map(len, shown.values()), default=0) < ADVERT_BYTES:
        raise ProtocolViolation(
            f"of the keys of {len(shown)} clients some do not have {ADVERT_BYTES} bytes, or are "
            "nobody's; leave."
        )
    keys = {peer: each[:ADVERT_BYTES] for peer, each in shown.items()}
    if keys.get(client) != mine:
        raise ProtocolViolation(
            f"the server shows another key for client {client} than it advertised; it would read "
            "what is sent to it, so leave."
        )
    if len({each[:KEY_BYTES] for each in keys.values()}) < len(keys):
        raise ProtocolViolation("two clients advertise the same key; one is forged, so leave.")
    if identity is None:
        return keys
    if named is not None:
        _require_pinned(client, named, identity)
    for peer, each in keys.items():
        pin = identity.public
        if peer != client:
            signature, statement = shown[peer][ADVERT_BYTES:], _statement(digest, peer, each)
            pin = identity.check(
                peer, statement, signature, None if named is None else named[peer]
            )
        keys[peer] = each + pin
    return keys


def message_key(keys: bytes) -> bytes:
    """The second of a client's keys."""
    return keys[KEY_BYTES:ADVERT_BYTES]


def _require_pinned(client: int, named: Mapping[int, bytes], identity: Identity) -> None:
    """Raises unless all who are named are pinned, each another one."""
    if named[client] != identity.public or len(set(named.values())) < len(named):
        raise ProtocolViolation(
            f"the server names client {client} by another identity than its own, or two of "
            f"{len(named)} clients by one; leave."
        )
    for peer, public in named.items():
        if peer != client and not identity.knows(peer, public):
            raise ProtocolViolation(
                f"the server names an identity for client {peer} that is not pinned; add it to "
                "the peers, or leave that client out."
            )


def _statement(digest: bytes, client: int, keys: bytes) -> bytes:
    """What a client signs: its keys, bound to this round and to itself."""
    return b"trilemma keys" + digest + client.to_bytes(8, "big") + keys
