"""What all transports have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.masking import Seed
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, SecretExposure
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transports.base import Payload, ServerSession
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing


def test_a_server_session_cannot_be_given_a_secret() -> None:
    class Careless(ServerSession):
        def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes]:
            self.kept = {"seeds": [Seed.generate(System())]}
            return {}

    with pytest.raises(SecretExposure, match="kept holds one"):
        Careless().step({})


def test_what_each_transport_answers_for_itself() -> None:
    blind = Paillier(mode="blind")
    asked = {value.name: value for value in (Plain(), SecretSharing(), blind)}
    assert {n: value.preparations for n, value in asked.items()} == {
        "plain": 0,
        "secret-sharing": 2,
        "paillier": 0,
    }
    assert {n: value.brings for n, value in asked.items()} == {
        "plain": "nothing",
        "secret-sharing": "identity",
        "paillier": "key",
    }
    assert {n: value.opened().server_reads for n, value in asked.items()} == {
        "plain": "messages",
        "secret-sharing": "sum",
        "paillier": "sum",
    }
    assert blind.opened() == Paillier()


def test_only_a_transport_with_a_common_key_makes_and_loads_one(tmp_path: Path) -> None:
    small = Paillier(bits=256, insecure=True)
    key = small.new_secret(System())
    assert key.public.bits == 256
    assert small.public(key) == key.public
    save_private(key, tmp_path / "key")
    assert small.load_secret(tmp_path / "key").public == key.public
    for transport in (Plain(), SecretSharing()):
        assert transport.new_secret(System()) is None
        assert transport.public(None) is None
        with pytest.raises(InvalidInput, match="has no key that clients share"):
            transport.load_secret(tmp_path / "key")


def test_single_messages_are_read_where_the_server_reads_them_alone() -> None:
    info = RoundInfo.new(range(2), Seeded(0))
    sent = Payload(np.array([1.0, 2.0]), 3)
    message = Plain().client(0, info, None, System(), b"x").step(b"", sent)
    assert isinstance(message, bytes)
    read = Plain().read(message, 0, info, b"x")
    assert (read.values.tolist(), read.weight) == ([1.0, 2.0], 3)
    for transport in (SecretSharing(), Paillier()):
        with pytest.raises(SecretExposure, match="shows nobody a single update"):
            transport.read(message, 0, info)
