"""Pinned identities: what they stop, and what happens without them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.protection.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    payload,
)

from trilemma.entropy import System
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
)
from trilemma.protection.transports.base import Aggregate
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, write_message


def test_pinned_identities_stop_a_server_that_swaps_keys() -> None:
    info = a_round(3, 3)
    who = Identity.pinned(info.participants, System())
    for swapped, why in ((True, "not signed by it"), (False, "")):
        clients = {c: SHARING.client(c, info, who[c], System()) for c in info.participants}
        server = SHARING.server(info)
        adverts: dict[int, Any] = {c: client.step(b"") for c, client in clients.items()}
        if swapped:
            outsider = Identity.generate(System())
            forged = SHARING.client(2, info, outsider, System()).step(b"")
            adverts[2] = forged
        inboxes: Any = server.step(adverts)
        if swapped:
            with pytest.raises(ProtocolViolation, match=why):
                clients[0].step(inboxes[0])
            continue
        for step in range(1, 4):
            replies: dict[int, Any] = {
                c: clients[c].step(inboxes[c], payload(c) if step == 2 else None) for c in clients
            }
            inboxes = server.step(replies)
        assert isinstance(inboxes, Aggregate)


def test_unsigned_and_unknown_clients_are_left() -> None:
    info = a_round(3, 3)
    who = Identity.pinned(info.participants, System())
    signed: dict[int, Any] = {c: SHARING.client(c, info, who[c], System()) for c in (0, 1)}
    unsigned = SHARING.client(2, info, None, System())
    adverts: dict[int, Any] = {c: value.step(b"") for c, value in {**signed, 2: unsigned}.items()}
    with pytest.raises(ProtocolViolation, match="2 of 3 clients sign their keys"):
        SHARING.server(info).step(adverts)
    table = pack({c: advert[HEADER_BYTES:] for c, advert in adverts.items()})
    with pytest.raises(ProtocolViolation, match="client 2 are not signed"):
        signed[0].step(write_message("KEY", signed[0].digest, SERVER, table))
    alone = SHARING.client(0, info, Identity.generate(System()), System())
    adverts = {c: SHARING.client(c, info, who[c], System()).step(b"") for c in who}
    adverts[0] = alone.step(b"")
    with pytest.raises(ProtocolViolation, match="is not pinned"):
        alone.step(SHARING.server(info).step(adverts)[0])  # type: ignore[index]
    with pytest.raises(InvalidInput, match="takes an Identity"):
        SHARING.client(0, info, b"key", System())
    with pytest.raises(InvalidInput, match="32 bytes"):
        Identity(b"short")
    assert repr(who[0]) == "<Identity: hidden>"


@pytest.mark.parametrize("public", [b"", b"short", bytes(31), bytes(33)])
def test_a_pinned_key_has_the_length_of_one(public: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"public key of peer 4 has .* bytes instead of 32"):
        Identity.generate(System()).pin({4: public})


def test_a_key_that_the_server_names_must_be_the_pinned_one() -> None:
    who = Identity.pinned(range(3), System())
    signed = who[1].sign(b"keys")
    assert who[0].knows(1, who[1].public)
    assert not who[0].knows(1, who[2].public)
    assert not who[0].knows(9, who[1].public)
    assert who[0].check(1, b"keys", signed, who[1].public) == who[1].public
    with pytest.raises(ProtocolViolation, match="client 1 are not signed by it"):
        who[0].check(1, b"keys", signed, who[2].public)
