"""Sessions: clients that disagree, and whatever arrives on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from tests.protection.five import CLIENTS, SIZE, a_round

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
    TrilemmaError,
)
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.sessions import ProtectedClient, ProtectedServer
from trilemma.protection.specs import parse_protection
from trilemma.protection.transcripts import Released
from trilemma.protection.transforms.compression import Compression


def test_a_client_that_sends_other_places_than_its_own_is_named() -> None:
    protection, info = parse_protection("compression:keep=0.5"), a_round()
    replies: dict[int, Any] = {
        client: ProtectedClient.start(protection, client, info, SIZE).step(b"", torch.zeros(SIZE))
        for client in range(CLIENTS)
    }
    with pytest.raises(InvalidInput, match=r"client 2 sent \d+ coordinates .* where \d+ of 60"):
        ProtectedServer.start(protection, info, SIZE).step({**replies, 2: replies[2][:-4]})


def test_clients_that_disagree_on_places_cannot_be_summed() -> None:
    info = a_round()
    half, third = Protection((Compression(0.5),)), Protection((Compression(0.3),))
    replies: dict[int, Any] = {
        0: ProtectedClient.start(half, 0, info, 9).step(b"", torch.zeros(9)),
        1: ProtectedClient.start(half, 1, info, 9).step(b"", torch.zeros(9)),
        2: ProtectedClient.start(third, 2, info, 9).step(b"", torch.zeros(9)),
    }
    with pytest.raises(ProtocolViolation, match="the settings differ"):
        ProtectedServer.start(half, info, 9).step(replies)


def damaged(message: bytes, rng: np.random.Generator) -> bytes:
    """One of: a flipped bit, a cut, something appended, a stretch of noise, all noise."""
    kind = rng.integers(5)
    data = bytearray(message)
    place = int(rng.integers(max(1, len(data))))
    if kind == 0 and data:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        data += rng.bytes(int(rng.integers(1, 40)))
    elif kind == 3:
        data[place : place + 16] = rng.bytes(16)
    else:
        data = bytearray(rng.bytes(len(data)))
    return bytes(data)


def play(text: str, key: PrivateKey, rng: np.random.Generator) -> tuple[int, str]:
    """A round in which one message, to or from client 0, is damaged at a step; how it ended."""
    protection = parse_protection(text)
    secret = key if "paillier" in text else None
    info = RoundInfo.new(range(3), Seeded(1), threshold=2)
    clients = {c: ProtectedClient.start(protection, c, info, 20, secret=secret) for c in range(3)}
    public = key.public if "paillier" in text else None
    server = ProtectedServer.start(protection, info, 20, public=public)
    target, upward = int(rng.integers(4)), bool(rng.integers(2))
    inboxes: Mapping[int, bytes] = dict.fromkeys(clients, b"")
    for step in range(6):
        replies: dict[int, Any] = {}
        for c, inbox in inboxes.items():
            message = inbox
            if (c, step, upward) == (0, target, False):
                message = damaged(inbox, rng)
            update = torch.full((20,), 0.01 * c) if clients[c].wants_update else None
            try:
                reply = clients[c].step(message, update)
            except TrilemmaError:
                continue  # an honest client that leaves
            if isinstance(reply, Released):
                return step, "opened"
            replies[c] = reply
        if upward and step == target and 0 in replies:
            replies[0] = damaged(replies[0], rng)
        try:
            outcome = server.step(replies)
        except TrilemmaError:
            return step, "refused"
        if isinstance(outcome, Released):
            return step, "mean"
        inboxes = outcome
    raise AssertionError("a round must end")


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "top-k:keep=0.3",
        "secret-sharing",
        "paillier:bits=2048",
        "paillier:bits=2048,mode=blind",
    ],
)
def test_damage_has_a_name(text: str, key: PrivateKey) -> None:
    rng = np.random.default_rng(11)
    ends = [play(text, key, rng)[1] for _ in range(20 if "paillier" in text else 200)]
    assert "refused" in ends
    assert set(ends) <= {"refused", "mean", "opened"}


@pytest.mark.parametrize("text", ["none", "secret-sharing", "paillier:bits=2048"])
def test_a_damaged_state_is_told_and_not_used(text: str, key: PrivateKey) -> None:
    protection, info = parse_protection(text), a_round()
    secret = key if "paillier" in text else None
    state = ProtectedClient.start(protection, 1, info, SIZE, secret=secret).export()
    ProtectedClient.start(protection, 1, info, SIZE, secret=secret, state=state)
    flipped = [state[:n] + bytes([state[n] ^ 4]) + state[n + 1 :] for n in range(len(state))]
    for damaged in (b"", b"x", state[:-1], state + b"x", state[16:], *flipped):
        with pytest.raises(ProtocolViolation, match=r"state of client 1 in round .* is damaged"):
            ProtectedClient.start(protection, 1, info, SIZE, secret=secret, state=damaged)
