"""The server: what it names, and that it never holds a secret."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from tests.protection.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    open_clients,
    payload,
    until,
)

from trilemma.crypto.sealed import Sealed
from trilemma.errors import (
    ForeignCiphertext,
    InvalidInput,
    ProtocolViolation,
)
from trilemma.protection.transports.base import Aggregate
from trilemma.protection.transports.wire import unpack, write_message


def test_the_server_names_what_clients_do_wrong() -> None:
    info = a_round()
    clients, server = open_clients(info), SHARING.server(info)
    adverts = {c: clients[c].step(b"") for c in clients}
    with pytest.raises(ProtocolViolation, match="must send 'ADV' now"):
        server.step({**adverts, 0: adverts[1]})
    with pytest.raises(ProtocolViolation, match="round 0 is over"):
        server.step(adverts)

    clients, server, inboxes = until("masked")
    replies = {c: clients[c].step(inboxes[c], payload(c)) for c in clients}
    short = write_message("MSK", clients[2].digest, 2, bytes(8))
    with pytest.raises(InvalidInput, match="client 2 sent 1 coordinates, the clients before it 3"):
        server.step({**replies, 2: short})

    clients, server, inboxes = until("unmask")
    replies = {c: clients[c].step(inboxes[c]) for c in clients}
    bent = bytearray(replies[0])
    bent[-10] ^= 1
    with pytest.raises(ForeignCiphertext, match="do not give a secret"):
        server.step({**replies, 0: bytes(bent)})

    clients, server, inboxes = until("unmask")
    late = {c: clients[c].step(inboxes[c]) for c in clients}
    fewer = SHARING.server(a_round())
    with pytest.raises(ProtocolViolation, match="must send 'ADV'"):
        fewer.step(late)


def reachable(root: object) -> list[object]:
    """Everything that an object holds, at any depth, code and types left out."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen[id(each)] = each
        todo += gc.get_referents(each)
    return list(seen.values())


def test_a_server_session_never_holds_a_secret() -> None:
    info = a_round()
    clients, server = open_clients(info), SHARING.server(info)
    secrets = set()
    for client in clients.values():
        fields = unpack(client.export())
        secrets |= {fields[3], fields[4], fields[5]}
    inboxes: Any = dict.fromkeys(clients, b"")
    for step in range(4):
        replies = {
            c: clients[c].step(inboxes[c], payload(c) if step == 2 else None)
            for c in inboxes
            if not (c == 4 and step >= 2)  # one drops, so that a pair key is recovered
        }
        inboxes = server.step(replies)
        held = reachable(server)
        assert not [item for item in held if isinstance(item, Sealed)]
        blob = b"".join(bytes(item) for item in held if isinstance(item, bytes | bytearray))
        assert not any(secret in blob for secret in secrets)
    assert isinstance(inboxes, Aggregate)
