from __future__ import annotations

import functools
import itertools
import operator
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.crypto.shamir import MAX_SECRET_BYTES, SHARE_BYTES, Share, combine, split
from trilemma.entropy import Seeded, System
from trilemma.errors import ForeignCiphertext, InvalidInput

PRIME = 2**521 - 1


def lagrange_at(point: int, points: Sequence[tuple[int, int]]) -> int:
    """Interpolation by the definition, in plain Python integers."""
    total = 0
    for i, (x, y) in enumerate(points):
        for j, (other, _) in enumerate(points):
            if i != j:
                y = y * (point - other) * pow(x - other, -1, PRIME) % PRIME
        total += y
    return total % PRIME


def point(share: Share) -> tuple[int, int]:
    data = share.reveal()
    return int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big")


@pytest.mark.parametrize(("threshold", "count"), [(1, 1), (1, 4), (3, 5), (5, 5)])
def test_every_subset_at_the_threshold_gives_the_secret(threshold: int, count: int) -> None:
    secret = System().bytes(32)
    shares = split(secret, threshold, count, System())
    for subset in itertools.permutations(shares, threshold):
        assert combine(subset, threshold) == secret


def test_shares_lie_on_one_polynomial_whose_value_at_0_holds_the_secret() -> None:
    secret = System().bytes(32)
    points = [point(share) for share in split(secret, 4, 9, System())]
    assert [x for x, _ in points] == list(range(1, 10))
    for x, y in points[4:]:
        assert lagrange_at(x, points[:4]) == y
    assert secret in lagrange_at(0, points[5:]).to_bytes(66, "big")
    degree_too_low = lagrange_at(points[4][0], points[:3])
    assert degree_too_low != points[4][1]


def test_sixty_seven_of_a_hundred() -> None:
    secret = System().bytes(32)
    shares = list(split(secret, 67, 100, System()))
    random.Random(1).shuffle(shares)
    assert combine(shares[:67], 67) == combine(shares[33:], 67) == combine(shares, 67) == secret
    points = [point(share) for share in shares[:67]]
    assert secret in lagrange_at(0, points).to_bytes(66, "big")


@pytest.mark.parametrize("length", [0, 1, 31, 32, MAX_SECRET_BYTES])
@pytest.mark.parametrize("fill", [0, 255])
def test_secrets_of_any_length_come_back_whole(length: int, fill: int) -> None:
    secret = bytes([fill]) * length
    assert combine(split(secret, 2, 3, System()), 2) == secret


def test_coefficients_fill_the_field() -> None:
    """Each bit of a_1 and a_2 takes both values in 64 sharings; shorter ones would leak secrets.

    As f(x) = s + a_1 x + a_2 x^2, y_3 - 2 y_2 + y_1 = 2 a_2 and y_2 - y_1 = a_1 + 3 a_2. A uniform
    bit stays the same in all 64 once in 10^19.
    """
    drawn: list[tuple[int, int]] = []
    for _ in range(64):
        (_, y1), (_, y2), (_, y3) = map(point, split(b"secret", 3, 3, System()))
        second = (y3 - 2 * y2 + y1) * pow(2, -1, PRIME) % PRIME
        drawn.append(((y2 - y1 - 3 * second) % PRIME, second))
    for values in zip(*drawn, strict=True):
        assert functools.reduce(operator.or_, values) == PRIME  # 521 ones
        assert functools.reduce(operator.and_, values) == 0


def test_one_share_less_is_consistent_with_every_secret() -> None:
    """With t - 1 shares, each candidate secret has a polynomial through them: nothing leaks."""
    points = [point(share) for share in split(b"true", 3, 5, System())[:2]]
    for candidate in (0, 1, PRIME - 1):
        assert (
            lagrange_at(0, [*points, (5, lagrange_at(5, [(0, candidate), *points]))]) == candidate
        )


def test_shares_of_the_same_secret_differ_each_time() -> None:
    a, b = (split(b"secret", 2, 3, System()) for _ in range(2))
    assert not {point(s) for s in a} & {point(s) for s in b}


def test_a_wrong_share_is_noticed() -> None:
    shares = split(System().bytes(32), 3, 5, System())
    index, value = point(shares[1])
    altered = Share(index, (value + 1) % PRIME)
    other = split(System().bytes(32), 3, 5, System())
    for wrong in ([shares[0], altered, shares[2]], [shares[0], other[1], shares[2]]):
        with pytest.raises(ForeignCiphertext, match="do not give a secret"):
            combine(wrong, 3)
    with pytest.raises(ForeignCiphertext):
        combine(shares, 2)


def test_shares_survive_the_wire() -> None:
    for share in split(b"secret", 2, 300, System())[::60]:
        data = share.reveal()
        assert len(data) == SHARE_BYTES == 68
        assert Share.from_bytes(data).reveal() == data
    with pytest.raises(ForeignCiphertext, match="68 bytes, got 67"):
        Share.from_bytes(data[1:])
    with pytest.raises(ForeignCiphertext, match="outside the field"):
        Share.from_bytes(b"\0\1" + b"\xff" * 66)
    with pytest.raises(InvalidInput, match="index"):
        Share.from_bytes(bytes(68))


@pytest.mark.parametrize(("threshold", "count"), [(0, 3), (-1, 3), (4, 3), (2, 1 << 16)])
def test_impossible_thresholds_are_refused(threshold: int, count: int) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        split(b"secret", threshold, count, System())


def test_bad_combinations_are_refused() -> None:
    shares = split(b"secret", 3, 5, System())
    with pytest.raises(InvalidInput, match="3 shares are needed, got 2"):
        combine(shares[:2], 3)
    with pytest.raises(InvalidInput, match="0 shares are needed"):
        combine(shares, 0)
    with pytest.raises(InvalidInput, match=r"distinct indices, got \[1, 1, 2\]"):
        combine([shares[0], shares[1], shares[0]], 3)


def test_long_secrets_and_seeded_entropy_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 48 bytes, got 49"):
        split(bytes(49), 2, 3, System())
    with pytest.raises(InvalidInput, match="System"):
        split(b"secret", 2, 3, Seeded(1))  # type: ignore[arg-type]


@given(data=st.one_of(st.binary(max_size=80), st.binary(min_size=68, max_size=68)))
def test_any_bytes_are_a_share_that_round_trips_or_refused(data: bytes) -> None:
    try:
        share = Share.from_bytes(data)
    except InvalidInput:
        return
    assert share.reveal() == data


@given(
    points=st.lists(st.tuples(st.integers(1, 65_535), st.integers(0, PRIME - 1)), max_size=5),
    threshold=st.integers(-1, 6),
)
def test_any_shares_are_refused(points: list[tuple[int, int]], threshold: int) -> None:
    """A random value has the checksum of a secret once in 2^128."""
    with pytest.raises(InvalidInput):
        combine([Share(index, value) for index, value in points], threshold)


@given(
    secret=st.binary(max_size=MAX_SECRET_BYTES + 2),
    threshold=st.integers(-1, 6),
    count=st.integers(-1, 6),
)
def test_any_secret_comes_back_or_is_refused(secret: bytes, threshold: int, count: int) -> None:
    try:
        shares = split(secret, threshold, count, System())
    except InvalidInput:
        assert len(secret) > MAX_SECRET_BYTES or not 1 <= threshold <= count
        return
    assert combine(shares[::-1], threshold) == secret
