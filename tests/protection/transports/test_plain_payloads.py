"""Updates in the clear come back, in the fewest bytes for their places."""

from __future__ import annotations

import numpy as np
import pytest

from trilemma.errors import ProtocolViolation
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.plain_payloads import (
    decode_positions,
    encode_positions,
    read_update,
    write_update,
)


def test_plain_updates_come_back() -> None:
    for dtype in (np.float32, np.float64):
        sent = Payload(np.array([1.5, -2.0], dtype), 7, np.array([3, 900]), 1000)
        got = read_update(b"".join(write_update(sent)))
        assert (got.weight, got.size) == (7, 1000)
        assert got.values.tolist() == [1.5, -2.0]
        assert got.positions is not None
        assert got.positions.tolist() == [3, 900]


@pytest.mark.parametrize("rate", [0.0, 0.0005, 0.01, 0.2, 0.9, 1.0])
def test_places_come_back_and_take_the_fewest_bytes(rate: float) -> None:
    rng = np.random.default_rng(9)
    for size in (1, 7, 8, 1000, 70_001):
        places = np.flatnonzero(rng.random(size) < rate)
        code = encode_positions(places, size)
        assert decode_positions(code, size).tolist() == places.tolist()
        bitmap = 1 + -(-size // 8)
        assert len(code) <= min(bitmap, 1 + 4 * len(places))


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff", b"\x01\x00", b"\x04\xff\xff", b"\x04\x00\x80", b"\x09\x00"]
)
def test_places_outside_the_update_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="altered"):
        decode_positions(data, 10)
