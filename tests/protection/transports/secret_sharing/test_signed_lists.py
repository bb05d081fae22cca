"""Signed lists: which signatures count."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import pytest
from scipy import stats

from trilemma.entropy import System
from trilemma.errors import ProtocolViolation
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.signed_lists import (
    Lists,
    drawn,
    read_list,
    write_list,
)

LISTS = Lists(b"d" * 16, b"model", {c: bytes([c]) * 96 for c in range(4)}, (0, 1, 2, 3), (0, 1, 2))
WHO = Identity.pinned(range(4), System())
PINS = {client: value.public for client, value in WHO.items()}


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
    assert len({item.statement() for item in (LISTS, *others)}) == 1 + len(others)
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
    assert read_list(write_list((256, 1))) == (1, 256)
    with pytest.raises(ProtocolViolation, match="names a client twice"):
        read_list(write_list((1, 2, 1)))
    with pytest.raises(ProtocolViolation, match="whole numbers"):
        read_list(b"123")


def test_a_sample_of_signatures_must_be_true_and_all_of_them_there() -> None:
    who = Identity.pinned(range(30), System())
    pins = {client: value.public for client, value in who.items()}
    lists = replace(LISTS, sharers=tuple(range(30)), survivors=tuple(range(27)))
    good = {c: who[c].sign(lists.statement()) for c in range(27)}
    lists.require_sampled(0, good, pins, 27, 5, System())
    lists.require_sampled(0, good, pins, 27, 99, System())
    for few in ({c: good[c] for c in range(26)}, {**good, 26: b""} | {3: b""}):
        with pytest.raises(ProtocolViolation, match=r"26 clients signed|client .* has not signed"):
            lists.require_sampled(0, few, pins, 27, 26, System())
    strangers = {c: good[c] for c in range(1, 25)} | {28: b"", 29: b""}
    with pytest.raises(ProtocolViolation, match=r"25 clients signed .* threshold of 27"):
        lists.require_sampled(0, strangers, pins, 27, 5, System())


def test_a_sample_misses_false_signatures_as_often_as_it_must() -> None:
    """13 of 26 others signed something else, 3 are checked: C(13, 3) / C(26, 3) = .11 pass."""
    who = Identity.pinned(range(27), System())
    pins = {client: value.public for client, value in who.items()}
    lists = replace(LISTS, sharers=tuple(range(27)), survivors=tuple(range(27)))
    good = {c: who[c].sign(lists.statement()) for c in range(27)}
    mixed = {c: good[c] if c % 2 else bytes(64) for c in good}
    passed = 0
    for _ in range(400):
        try:
            lists.require_sampled(0, mixed, pins, 27, 3, System())
            passed += 1
        except ProtocolViolation:
            continue
    assert stats.binomtest(passed, 400, 0.11).pvalue > 1e-6


def test_draws_are_secret_and_even() -> None:
    count = Counter(item for _ in range(2000) for item in drawn([4, 5, 6, 7, 8], 2, System()))
    assert stats.chisquare(list(count.values())).pvalue > 1e-6
    assert sorted(drawn([4, 5], 9, System())) == [4, 5]
    assert drawn([4, 5], 0, System()) == []


def torn(n: int, t: int, helpers: int) -> bool:
    """Whether any lists at all give t shares of both kinds of one client, helpers' included.

    Each honest client stands by one list of t or more that it is on, of those it was told the one
    it signed last, and reveals for it if t signed the same. The one on which all are was signed by
    everybody, with the updates.
    """
    everyone = range(n)
    full = frozenset(everyone)
    lists = [
        frozenset(group) for size in range(t, n + 1) for group in combinations(everyone, size)
    ]
    honest = range(n - helpers)
    choices = [[item for item in lists if client in item] for client in honest]
    for chosen in product(*choices):
        signed = Counter(chosen)
        revealed = [item for item in chosen if item == full or signed[item] + helpers >= t]
        for client in honest:
            seeds = sum(client in item for item in revealed)
            if min(seeds, len(revealed) - seeds) + helpers >= t:
                return True
    return False


@pytest.mark.parametrize(
    ("n", "t"), [(n, t) for n in range(3, 7) for t in range(2 * n // 3 + 1, n + 1)]
)
def test_no_lists_at_all_open_a_client_while_fewer_than_the_bound_help(n: int, t: int) -> None:
    for helpers in range(2 * t - n):
        assert not torn(n, t, helpers)
    if t < n:
        assert torn(n, t, 2 * t - n), "and the bound is tight"
