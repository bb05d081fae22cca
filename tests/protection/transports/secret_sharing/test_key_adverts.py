"""Advertised keys: which are taken, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trilemma.entropy import System
from trilemma.errors import ProtocolViolation
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.key_adverts import (
    advertise,
    authentic,
    check_adverts,
    message_key,
    named,
)

DIGEST = b"d" * 16
WHO = Identity.pinned(range(4), System())
KEYS = {c: bytes([c + 1]) * 32 + bytes([c + 101]) * 32 for c in range(4)}
SIGNED = {c: advertise(KEYS[c], c, DIGEST, WHO[c]) for c in range(4)}
NAMED = {c: advertise(KEYS[c], c, DIGEST, WHO[c], name=True) for c in range(4)}


def test_keys_come_with_the_identity_that_signed_them() -> None:
    for shown in (SIGNED, NAMED):
        check_adverts(shown, 0, KEYS[0], WHO[0], name=shown is NAMED)
        taken = authentic(shown, [0, 2], 0, DIGEST, WHO[0])
        assert taken == {c: KEYS[c] + WHO[c].public for c in (0, 2)}
    assert named(NAMED) == {c: WHO[c].public for c in range(4)}
    check_adverts(KEYS, 0, KEYS[0], None, name=True)
    assert advertise(KEYS[1], 1, DIGEST, None, name=True) == KEYS[1]
    assert authentic(KEYS, [1], 0, DIGEST, None) == {1: KEYS[1]}
    assert message_key(KEYS[2]) == bytes([103]) * 32


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ({**NAMED, 0: NAMED[1]}, "another key for client 0"),
        ({**NAMED, 2: b"short"}, "do not have 64 bytes"),
        ({**NAMED, 2: NAMED[1]}, "the same key"),
        ({**NAMED, 0: SIGNED[0]}, "names client 0 by another identity"),
        ({**NAMED, 0: SIGNED[0] + WHO[3].public}, "names client 0 by another identity"),
        ({**NAMED, 3: SIGNED[3] + WHO[1].public}, "two of 4 clients by one"),
        ({**NAMED, 3: SIGNED[3] + bytes(32)}, "an identity for client 3 that is not pinned"),
        ({**NAMED, 3: SIGNED[3]}, "an identity for client 3 that is not pinned"),
        ({**NAMED, 3: NAMED[3] + b"more"}, "an identity for client 3 that is not pinned"),
        ({**NAMED, 5: KEYS[3][::-1] + NAMED[3][64:]}, "two of 5 clients by one"),
    ],
)
def test_other_tables_are_refused_by_name(shown: Mapping[int, bytes], why: str) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        check_adverts(shown, 0, KEYS[0], WHO[0], name=True)


@pytest.mark.parametrize(
    "advert",
    [
        KEYS[2],
        KEYS[2] + SIGNED[1][64:],
        KEYS[3] + SIGNED[2][64:],
        KEYS[3] + NAMED[2][64:],
        SIGNED[2] + WHO[1].public,
        advertise(KEYS[2], 2, b"e" * 16, WHO[2]),
        advertise(KEYS[2], 1, DIGEST, WHO[2], name=True),
    ],
)
def test_keys_that_their_client_did_not_sign_are_refused(advert: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="client 2 are not signed by it"):
        authentic({**SIGNED, 2: advert}, [1, 2], 0, DIGEST, WHO[0])
    assert authentic({**SIGNED, 2: advert}, [1], 0, DIGEST, WHO[0]), "it was not chosen"
