"""A client against a server that cheats, and what its session hides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.protection.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    open_clients,
    payload,
    survivors,
    until,
)

from trilemma.crypto.masking import KeyPair
from trilemma.crypto.shamir import SHARE_BYTES, Share, combine
from trilemma.entropy import Seeded, System
from trilemma.errors import (
    ForeignCiphertext,
    InvalidInput,
    ProtocolViolation,
    SecretExposure,
    TooFewClients,
)
from trilemma.protection.transports.base import Aggregate, Payload
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message


def test_a_server_that_asks_for_both_kinds_of_share_gets_one() -> None:
    clients, _, _ = until("unmask")
    victim = 4
    revealed: dict[str, list[bytes]] = {"seed": [], "key": []}
    for client in range(4):
        first = clients[client].step(survivors(clients[client], [0, 1, 2, 3, victim]))
        revealed["seed"].append(unpack(first[HEADER_BYTES:])[victim])
        with pytest.raises(ProtocolViolation, match="answers no more"):
            clients[client].step(survivors(clients[client], [0, 1, 2, 3]))
    shares = [Share.from_bytes(piece) for piece in revealed["seed"]]
    assert len(combine(shares, 3)) == 32, "the self-mask, as the protocol has it"
    assert revealed["key"] == []


def test_lists_that_split_the_clients_cannot_yield_both_kinds() -> None:
    """Two lists of survivors, each shown to some clients: 3 + 3 answers would take 6 clients."""
    clients, _, _ = until("unmask")
    victim = 4
    seed: list[Share] = []
    key: list[Share] = []
    for client in range(4):  # the victim itself is never asked
        alive = client < 2
        listed = [0, 1, 2, 3, victim] if alive else [0, 1, 2, 3]
        shares = unpack(clients[client].step(survivors(clients[client], listed))[HEADER_BYTES:])
        (seed if alive else key).append(Share.from_bytes(shares[victim]))
    for kind in (seed, key):
        with pytest.raises(InvalidInput, match="3 shares are needed"):
            combine(kind, 3)


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([1, 2, 3, 4], "leaves out client 0"),
        ([0, 1, 2, 9], "holds client 9"),
        ([0, 1, 1, 2], "twice"),
    ],
)
def test_a_forged_survivor_list_gets_nothing(listed: list[int], why: str) -> None:
    clients, _, _ = until("unmask")
    with pytest.raises(ProtocolViolation, match=why):
        clients[0].step(survivors(clients[0], listed))
    with pytest.raises(ProtocolViolation, match="answers no more"):
        clients[0].step(survivors(clients[0], [0, 1, 2, 3, 4]))


def test_a_short_survivor_list_gets_nothing() -> None:
    clients, _, _ = until("unmask")
    with pytest.raises(TooFewClients, match="fewer than its threshold of 3"):
        clients[0].step(survivors(clients[0], [0, 1]))
    with pytest.raises(ProtocolViolation, match="answers no more"):
        clients[0].step(survivors(clients[0], [0, 1, 2]))


def test_a_client_holds_to_its_own_minimum_of_survivors() -> None:
    clients, _, _ = until("unmask")
    clients[0].least = clients[1].least = 4
    with pytest.raises(TooFewClients, match=r"sum of 3 .* client 0 is summed with 4 at least"):
        clients[0].step(survivors(clients[0], [0, 1, 2]))
    assert clients[1].step(survivors(clients[1], [0, 1, 2, 3]))


def test_a_client_leaves_when_its_key_is_swapped() -> None:
    _, _, inboxes = until("share")
    table = unpack(inboxes[0][HEADER_BYTES:])
    for forged, why in (
        ({**table, 0: bytes(64)}, "another key"),
        ({**table, 2: table[3]}, "the same key"),
        ({**table, 7: bytes(64)}, "holds client 7"),
        ({k: v for k, v in table.items() if k}, "leaves out client 0"),
    ):
        fresh, _, _ = until("share")
        own = unpack(fresh[0].export())
        shown = dict(forged)
        if 0 in shown and shown[0] == table[0]:
            public = KeyPair(own[3]).public + KeyPair(own[4]).public
            shown[0] = public
        message = write_message("KEY", fresh[0].digest, SERVER, pack(shown))
        with pytest.raises(ProtocolViolation, match=why):
            fresh[0].step(message)


def test_altered_foreign_and_replayed_messages_have_names() -> None:
    clients, _, inboxes = until("masked")
    bent = bytearray(inboxes[0])
    bent[-1] ^= 1
    with pytest.raises(ForeignCiphertext, match="altered"):
        clients[0].step(bytes(bent), payload(0))
    # a share sealed for another client, redirected
    clients, _, inboxes = until("masked")
    with pytest.raises((ForeignCiphertext, ProtocolViolation)):
        clients[0].step(inboxes[1], payload(0))
    # shares of another round
    clients, _, _ = until("masked")
    _, _, older = until("masked", a_round(number=8))
    with pytest.raises(ProtocolViolation, match="another round"):
        clients[0].step(older[0], payload(0))
    # a message of an earlier step
    clients, _, inboxes = until("unmask")
    replayed = write_message("BOX", clients[0].digest, SERVER, b"")
    with pytest.raises(ProtocolViolation, match="must send 'SUR' now, got 'BOX'"):
        clients[0].step(replayed)
    with pytest.raises(ProtocolViolation, match="not a message"):
        until("share")[0][0].step(b"hello")


@pytest.mark.parametrize("bad", [1.1, float("nan"), float("inf")])
def test_values_out_of_range_are_named(bad: float) -> None:
    clients, _, inboxes = until("masked")
    with pytest.raises(InvalidInput, match=r"client 0 .* clip_range of 1"):
        clients[0].step(inboxes[0], Payload(np.array([0.0, bad, 0.0]), 1))


def test_client_sessions_hide() -> None:
    client = open_clients(a_round())[0]
    assert repr(client) == "<SharingClient: hidden>"
    with pytest.raises(SecretExposure):
        client.__reduce__()
    with pytest.raises(InvalidInput, match="System"):
        SHARING.client(0, a_round(), None, Seeded(1))  # type: ignore[arg-type]


def test_a_session_survives_its_process() -> None:
    """Each step in a restored session, as an adapter that stores state between messages does."""
    info = a_round()
    server = SHARING.server(info)
    states = {c: client.export() for c, client in open_clients(info).items()}
    inboxes: Any = dict.fromkeys(states, b"")
    for step in range(4):
        replies: dict[int, Any] = {}
        for c in inboxes:
            session = SHARING.restore(states[c], info, None, System())
            assert session.wants_update == (step == 2)
            replies[c] = session.step(inboxes[c], payload(c) if step == 2 else None)
            states[c] = session.export()
        inboxes = server.step(replies)
    assert isinstance(inboxes, Aggregate)
    assert inboxes.clients == info.participants
    done = SHARING.restore(states[0], info, None, System())
    with pytest.raises(ProtocolViolation, match="has answered"):
        done.step(b"")
    with pytest.raises(ProtocolViolation, match="another round"):
        SHARING.restore(states[0], a_round(number=1), None, System())


def test_shares_have_their_size() -> None:
    clients, _, inboxes = until("unmask")
    reply = unpack(clients[0].step(inboxes[0])[HEADER_BYTES:])
    assert {len(share) for share in reply.values()} == {SHARE_BYTES}
