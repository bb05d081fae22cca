"""Messages as bytes: read as they were written, or refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.errors import ProtocolViolation
from trilemma.protection.transports import wire

DIGEST = b"d" * 16


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.binary(max_size=20), max_size=5))
def test_a_table_is_read_as_it_was_written(parts: dict[int, bytes]) -> None:
    assert wire.unpack(wire.pack(parts)) == parts


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    try:
        parts = wire.unpack(data)
    except ProtocolViolation:
        return
    assert wire.pack(parts) == data


def test_a_message_belongs_to_its_round_its_sender_and_its_kind() -> None:
    message = wire.write_message("sum", DIGEST, 3, b"body")
    assert bytes(wire.open_message("sum", DIGEST, 3, message)) == b"body"
    assert len(message) == wire.HEADER_BYTES + 4
    for wrong, words in (
        (("sum", b"e" * 16, 3), "client 3 belongs to another round"),
        (("sum", DIGEST, 4), "client 4 must send 'sum' now, got 'sum' of sender 3"),
        (("key", DIGEST, 3), "must send 'key' now"),
        (("sum", DIGEST, wire.SERVER), "the server must send"),
    ):
        with pytest.raises(ProtocolViolation, match=words):
            wire.open_message(*wrong, message)
    with pytest.raises(ProtocolViolation, match="not a message of this protocol"):
        wire.open_message("sum", DIGEST, 3, b"TRM1")


def test_numbers_are_whole_and_little_endian() -> None:
    values = np.array([1, 2, 3], dtype=">u4")
    assert bytes(wire.array_bytes(values)) == b"\1\0\0\0\2\0\0\0\3\0\0\0"
    assert wire.read_array(wire.array_bytes(values), np.dtype(np.uint32)).tolist() == [1, 2, 3]
    with pytest.raises(ProtocolViolation, match="5 bytes does not hold whole numbers of 4"):
        wire.read_array(b"12345", np.dtype(np.uint32))
