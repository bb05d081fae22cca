"""Signed lists: which signatures count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trilemma.entropy import System
from trilemma.errors import ProtocolViolation
from trilemma.protections.transports.secret_sharing.identity import Identity
from trilemma.protections.transports.secret_sharing.lists import Lists, write_list

LISTS = Lists(b"d" * 16, b"model", {c: bytes([c]) * 96 for c in range(4)}, (0, 1, 2, 3), (0, 1, 2))
WHO = Identity.pinned(range(4), System())
PINS = {client: each.public for client, each in WHO.items()}


def test_every_part_is_signed() -> None:
    others = [
        replace(LISTS, digest=b"e" * 16),
        replace(LISTS, shown=b"another"),
        replace(LISTS, advertised={**LISTS.advertised, 3: bytes(96)}),
        replace(LISTS, advertised={c: LISTS.advertised[c] for c in range(3)}),
        replace(LISTS, sharers=(0, 1, 2)),
        replace(LISTS, survivors=(0, 1, 3)),
        replace(LISTS, sharers=(0, 1, 2, 3, 0, 1, 2), survivors=()),
    ]
    assert len({each.statement() for each in (LISTS, *others)}) == 1 + len(others)
    for other in others:
        signatures = {c: WHO[c].sign(other.statement()) for c in range(3)}
        with pytest.raises(ProtocolViolation, match=r"1 clients signed .* threshold of 2"):
            LISTS.require_agreement(0, signatures, PINS, 2)


def test_each_survivor_counts_once_and_others_do_not() -> None:
    good = {c: WHO[c].sign(LISTS.statement()) for c in range(4)}
    LISTS.require_agreement(0, good, PINS, 3)
    LISTS.require_agreement(0, {c: good[c] for c in (1, 2)}, PINS, 3)
    for bad in (
        {0: good[0], 1: good[1]},
        {0: good[0], 1: good[1], 3: good[3]},  # no survivor
        {0: good[0], 1: good[1], 2: good[1]},  # another's signature
        {0: good[0], 1: good[1], 2: b"short"},
    ):
        with pytest.raises(ProtocolViolation, match="2 clients signed the lists that client 0"):
            LISTS.require_agreement(0, bad, PINS, 3)


def test_lists_are_little_endian_words() -> None:
    assert write_list((1, 256)) == bytes([1] + [0] * 7 + [0, 1] + [0] * 6)
