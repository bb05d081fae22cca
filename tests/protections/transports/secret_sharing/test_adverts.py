"""Advertised keys: which are taken, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trilemma.entropy import System
from trilemma.errors import ProtocolViolation
from trilemma.protections.transports.secret_sharing.adverts import (
    advertise,
    authentic,
    message_key,
)
from trilemma.protections.transports.secret_sharing.identity import Identity

DIGEST = b"d" * 16
WHO = Identity.pinned(range(4), System())
KEYS = {c: bytes([c + 1]) * 32 + bytes([c + 101]) * 32 for c in range(4)}
SHOWN = {c: advertise(KEYS[c], c, DIGEST, WHO[c]) for c in range(3)}
NAMED = {c: WHO[c].public for c in range(4)}
OWN = {0: KEYS[0]}


def test_keys_come_with_the_identity_that_signed_them() -> None:
    for named in (None, NAMED):
        taken = authentic(SHOWN, OWN, DIGEST, WHO[0], named)
        assert taken == {c: KEYS[c] + WHO[c].public for c in range(3)}
    plain = {c: KEYS[c] for c in range(3)}
    assert advertise(KEYS[1], 1, DIGEST, None) == KEYS[1]
    assert authentic(plain, OWN, DIGEST, None) == plain
    assert message_key(KEYS[2]) == bytes([103]) * 32


@pytest.mark.parametrize(
    ("shown", "named", "why"),
    [
        ({**SHOWN, 0: KEYS[1]}, None, "another key for client 0"),
        ({c: SHOWN[c] for c in (1, 2)}, None, "another key for client 0"),
        ({}, NAMED, "do not have 64 bytes"),
        ({**SHOWN, 2: b"short"}, None, "do not have 64 bytes"),
        ({**SHOWN, 9: SHOWN[1]}, NAMED, "or are nobody's"),
        ({**SHOWN, 2: SHOWN[1]}, None, "the same key"),
        ({**SHOWN, 2: KEYS[2] + SHOWN[1][64:]}, None, "client 2 are not signed by it"),
        ({**SHOWN, 2: KEYS[2]}, NAMED, "client 2 are not signed by it"),
        ({**SHOWN, 2: KEYS[3] + SHOWN[2][64:]}, NAMED, "client 2 are not signed by it"),
        (SHOWN, {**NAMED, 0: bytes(32)}, "names client 0 by another identity"),
        (SHOWN, {**NAMED, 3: WHO[1].public}, "two of 4 clients by one"),
        (SHOWN, {**NAMED, 3: bytes(32)}, "an identity for client 3 that is not pinned"),
        (SHOWN, {**NAMED, 3: b""}, "an identity for client 3 that is not pinned"),
        (SHOWN, {**NAMED, 5: bytes(32)}, "an identity for client 5 that is not pinned"),
    ],
)
def test_other_keys_are_refused_by_name(
    shown: Mapping[int, bytes], named: Mapping[int, bytes] | None, why: str
) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        authentic(shown, OWN, DIGEST, WHO[0], named)


def test_a_signature_is_of_one_round_and_client() -> None:
    for digest, client in ((b"e" * 16, 1), (DIGEST, 2)):
        forged = advertise(KEYS[1], client, digest, WHO[1])
        with pytest.raises(ProtocolViolation, match="client 1 are not signed by it"):
            authentic({**SHOWN, 1: forged}, OWN, DIGEST, WHO[0])
