"""Paillier's own: keys, ciphertexts that were altered, one opening a round."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
import torch
from tests.protection.five import PAILLIER, a_round

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
    SecretExposure,
    TrilemmaError,
)
from trilemma.protection.sessions import ProtectedClient, ProtectedServer
from trilemma.protection.specs import parse_protection
from trilemma.protection.transcripts import Released
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.wire import HEADER_BYTES


def test_paillier_refuses_what_it_should(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    with pytest.raises(InvalidInput, match="trilemma keys new"):
        ProtectedClient.start(protection, 0, info, 3)
    with pytest.raises(InvalidInput, match="public key, got PrivateKey"):
        ProtectedServer.start(protection, info, 3, public=key)
    with pytest.raises(TrilemmaError, match="asks for 3072"):
        ProtectedClient.start(parse_protection("paillier"), 0, info, 3, secret=key)
    with pytest.raises(InvalidInput, match="mode"):
        Paillier(mode="shut")  # type: ignore[arg-type]
    for transport in (protection.transport,):
        with pytest.raises(InvalidInput, match="clip_range of 1"):
            transport.client(0, info, key, System()).step(b"", Payload(np.array([1.5]), 1))


def test_altered_and_foreign_ciphertexts_are_named(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    outsider = PrivateKey.generate(System(), bits=2048)

    def sent(client: int, secret: PrivateKey) -> Any:
        session = ProtectedClient.start(protection, client, info, 3, secret=secret)
        return session.step(b"", torch.zeros(3))

    replies = {c: sent(c, key) for c in range(3)}
    foreign = sent(0, outsider)
    zeros = bytearray(replies[0])
    zeros[-512:] = bytes(512)
    for forged, why in ((foreign, "same key file"), (bytes(zeros), "outside 1"), (b"", "not a")):
        server = ProtectedServer.start(protection, info, 3, public=key.public)
        with pytest.raises(TrilemmaError, match=why):
            server.step({**replies, 0: forged})
        with pytest.raises(ProtocolViolation, match="is over"):
            server.step(replies)


def test_a_paillier_client_opens_one_sum(key: PrivateKey) -> None:
    info, protection = a_round(), parse_protection(PAILLIER)
    clients = {c: ProtectedClient.start(protection, c, info, 3, secret=key) for c in range(3)}
    server = ProtectedServer.start(protection, info, 3, public=key.public)
    asked = server.step({c: client.step(b"", torch.zeros(3)) for c, client in clients.items()})  # type: ignore[misc]
    assert not isinstance(asked, Released)
    (inbox,) = asked.values()
    state = clients[0].export()
    clients[0].step(inbox)
    with pytest.raises(ProtocolViolation, match="opens one sum a round"):
        clients[0].step(inbox)
    restored = ProtectedClient.start(protection, 0, info, 3, secret=key, state=state)
    assert isinstance(restored.step(inbox), bytes)
    with pytest.raises(ProtocolViolation, match="another round"):
        ProtectedClient.start(protection, 0, a_round(1), 3, secret=key, state=state)
    with pytest.raises(SecretExposure):
        clients[1].__reduce__()


@pytest.mark.parametrize("step", [math.nan, math.inf, 0.0, -1.0, 1e300])
def test_an_opened_sum_is_in_the_units_of_the_round(key: PrivateKey, step: float) -> None:
    protection, info = parse_protection(PAILLIER), a_round()
    server = ProtectedServer.start(protection, info, 3, public=key.public)
    clients = {c: ProtectedClient.start(protection, c, info, 3, secret=key) for c in range(3)}
    asked = server.step({c: client.step(b"", torch.zeros(3)) for c, client in clients.items()})  # type: ignore[misc]
    opened = clients[0].step(asked[0])  # type: ignore[index]
    assert isinstance(opened, bytes)
    forged = opened[: HEADER_BYTES + 8] + struct.pack("<d", step) + opened[HEADER_BYTES + 16 :]
    with pytest.raises(ProtocolViolation, match="opened in units of"):
        server.step({0: forged})
