"""Messages as bytes: a header that binds each to its round, tables of parts, arrays of numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.errors import ProtocolViolation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "HEADER_BYTES",
    "SERVER",
    "array_bytes",
    "is_kind",
    "open_message",
    "pack",
    "read_array",
    "unpack",
    "write_message",
]

SERVER: Final = (1 << 64) - 1  # the server's number as a sender
_HEADER: Final = struct.Struct("<4s4s16sQ")
_MAGIC: Final = b"TRM1"
_ENTRY: Final = struct.Struct("<QQ")
HEADER_BYTES: Final = _HEADER.size


def write_message(kind: str, digest: bytes, sender: int, *body: bytes | memoryview) -> bytes:
    """The body behind 32 bytes: what it is, the digest of its round, who sends it."""
    return b"".join((_HEADER.pack(_MAGIC, kind.encode(), digest, sender), *body))


def array_bytes(values: NDArray[Any]) -> memoryview:
    """The array as little-endian bytes, without a copy where the machine is little-endian."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.view(np.uint8).data


def open_message(kind: str, digest: bytes, sender: int, message: bytes) -> memoryview:
    """The body, if it is this sender's message of this kind in this round.

    The header tells mistakes and replays apart; it is no signature, so a server that forges it is
    the transport's business.
    """
    who = "the server" if sender == SERVER else f"client {sender}"
    if len(message) < HEADER_BYTES or message[:4] != _MAGIC:
        raise ProtocolViolation(f"what {who} sent is not a message of this protocol.")
    _, found, round_digest, author = _HEADER.unpack_from(message)
    if round_digest != digest:
        raise ProtocolViolation(
            f"the message of {who} belongs to another round, model or protection; it is replayed "
            "or the settings differ."
        )
    if author != sender or found.rstrip(b"\0") != kind.encode():
        got = found.rstrip(b"\0").decode(errors="replace")
        raise ProtocolViolation(
            f"{who} must send {kind!r} now, got {got!r} of sender {author}; it is replayed or "
            "forged."
        )
    return memoryview(message)[HEADER_BYTES:]


def is_kind(kind: str, message: bytes) -> bool:
    """Whether a message says that it is of this kind; `open_message` checks the rest.

    >>> is_kind("ALL", write_message("ALL", bytes(16), SERVER))
    True
    """
    return message[4:8].rstrip(b"\0") == kind.encode()


def pack(parts: Mapping[int, bytes]) -> bytes:
    """A table of numbered parts.

    >>> unpack(pack({3: b"abc", 1: b""}))
    {1: b'', 3: b'abc'}
    """
    rows = sorted(parts.items())
    return b"".join(piece for key, part in rows for piece in (_ENTRY.pack(key, len(part)), part))


def unpack(data: bytes | memoryview) -> dict[int, bytes]:
    """The table that `pack` wrote."""
    view, parts, start, last = memoryview(data), {}, 0, -1
    while start < len(view):
        if len(view) - start < _ENTRY.size:
            raise ProtocolViolation(
                f"a message of {len(view)} bytes is cut short; ask for it again."
            )
        key, length = _ENTRY.unpack_from(view, start)
        start += _ENTRY.size
        if key <= last or length > len(view) - start:
            raise ProtocolViolation(
                f"entry {key} of a message's table is out of order or cut short."
            )
        parts[key] = bytes(view[start : start + length])
        start, last = start + length, key
    return parts


def read_array(data: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Little-endian numbers, without a copy."""
    if len(data) % dtype.itemsize:
        raise ProtocolViolation(
            f"a message of {len(data)} bytes does not hold whole numbers of {dtype.itemsize}."
        )
    return np.frombuffer(data, dtype.newbyteorder("<"))
