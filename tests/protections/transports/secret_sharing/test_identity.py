"""Pinned identities: what they stop, and what happens without them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.protections.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    payload,
)

from trilemma.crypto.masking import KeyPair, RoundContext, unseal
from trilemma.crypto.shamir import SHARE_BYTES, Share, combine
from trilemma.entropy import System
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
)
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.transports.base import Aggregate
from trilemma.protections.transports.secret_sharing.identity import Identity
from trilemma.protections.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message


def identified(info: RoundInfo) -> dict[int, Identity]:
    made = {c: Identity.generate(System()) for c in info.participants}
    public = {c: each.public for c, each in made.items()}
    return {c: each.pin(public) for c, each in made.items()}


def test_a_server_that_swaps_keys_reads_an_update_without_identities() -> None:
    """Shown, not assumed: the server puts its own keys in the place of everyone else's."""
    info = a_round(3, 2)
    victim = SHARING.client(0, info, None, System())
    advert = unpack_advert(victim.step(b""))
    fakes = {c: (KeyPair.generate(System()), KeyPair.generate(System())) for c in (1, 2)}
    table = {0: advert, **{c: a.public + b.public for c, (a, b) in fakes.items()}}
    digest = info.digest(SHARING.describe().encode() + b"\0")
    sealed = unpack(
        victim.step(write_message("KEY", digest, SERVER, pack(table)))[HEADER_BYTES:]  # type: ignore[index]
    )
    context = RoundContext(info.run, info.number)
    shares = [
        unseal(fakes[c][1], advert[32:], sealed[c], context=context, sender=0, receiver=c)
        for c in (1, 2)
    ]
    seed = combine([Share.from_bytes(each[:SHARE_BYTES]) for each in shares], 2)
    assert seed == unpack(victim.export())[5], "the self-mask is open, and so is the update"


def unpack_advert(message: Any) -> bytes:
    return bytes(message[HEADER_BYTES:])


def test_pinned_identities_stop_a_server_that_swaps_keys() -> None:
    info = a_round(3, 2)
    who = identified(info)
    for swapped, why in ((True, "not signed by it"), (False, "")):
        clients = {c: SHARING.client(c, info, who[c], System()) for c in info.participants}
        server = SHARING.server(info)
        adverts: dict[int, Any] = {c: each.step(b"") for c, each in clients.items()}
        if swapped:
            stranger = Identity.generate(System())
            forged = SHARING.client(2, info, stranger, System()).step(b"")
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
    info = a_round(3, 2)
    who = identified(info)
    signed = {c: SHARING.client(c, info, who[c], System()) for c in (0, 1)}
    unsigned = SHARING.client(2, info, None, System())
    adverts: dict[int, Any] = {c: each.step(b"") for c, each in {**signed, 2: unsigned}.items()}
    inboxes: Any = SHARING.server(info).step(adverts)
    with pytest.raises(ProtocolViolation, match="client 2 are not signed"):
        signed[0].step(inboxes[0])
    alone = SHARING.client(0, info, Identity.generate(System()), System())
    alone.step(b"")
    adverts[0] = SHARING.client(0, info, who[0], System()).step(b"")
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
