"""An update in the clear as bytes: its weight, its places where they are not known, its values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.wire import array_bytes, read_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_positions", "encode_positions", "read_update", "write_update"]

_BODY: Final = struct.Struct("<QQQB")  # weight, size of the update, bytes of places, of a value
_CODES: Final = tuple(np.dtype(f"<u{size}") for size in (1, 2, 4, 8))
_BITMAP: Final = len(_CODES)


def write_update(payload: Payload) -> tuple[bytes, bytes, memoryview]:
    """The parts of a plain update: its weight, its places if they are not known, its values."""
    values = payload.values
    if values.ndim != 1 or values.dtype.kind != "f" or values.itemsize not in (4, 8):
        raise InvalidInput(
            f"an update must be a flat array of 32 or 64-bit floats, got {values.dtype} of shape "
            f"{values.shape}."
        )
    places = b""
    if payload.positions is not None:
        places = encode_positions(payload.positions, payload.size)
    head = _BODY.pack(payload.weight, payload.size, len(places), values.itemsize)
    return head, places, array_bytes(values)


def read_update(body: bytes | memoryview) -> Payload:
    """The update that `write_update` wrote."""
    if len(body) < _BODY.size:
        raise ProtocolViolation("a plain update is cut short; ask for it again.")
    weight, size, place_bytes, width = _BODY.unpack_from(body)
    rest = memoryview(body)[_BODY.size :]
    if width not in (4, 8) or place_bytes > len(rest) or weight < 1:
        raise ProtocolViolation(
            f"a plain update has an impossible header (weight {weight}, width {width}); it was "
            f"altered."
        )
    values = read_array(rest[place_bytes:], np.dtype(f"f{width}"))
    positions = decode_positions(bytes(rest[:place_bytes]), size) if place_bytes else None
    if positions is not None and positions.size != values.size:
        raise ProtocolViolation(
            f"a plain update names {positions.size} coordinates and sends {values.size} values; "
            "it was altered."
        )
    return Payload(values, weight, positions, size)


def encode_positions(positions: NDArray[np.int64], size: int) -> bytes:
    """Rising places as a list of gaps in as few bytes each as the widest needs, or as a bitmap.

    The smaller of the two is taken; the first byte says which.
    """
    gaps = np.diff(positions, prepend=-1) - 1
    widest = int(gaps.max()) if gaps.size else 0
    code = next(i for i, dtype in enumerate(_CODES) if widest <= np.iinfo(dtype).max)
    if gaps.size * _CODES[code].itemsize <= -(-size // 8):
        return bytes([code]) + gaps.astype(_CODES[code]).tobytes()
    known = np.zeros(size, np.bool_)
    known[positions] = True
    return bytes([_BITMAP]) + np.packbits(known, bitorder="little").tobytes()


def decode_positions(data: bytes, size: int) -> NDArray[np.int64]:
    """The places that `encode_positions` wrote; raises where they are not places below `size`."""
    code, body = data[0] if data else 255, data[1:]
    if code == _BITMAP and len(body) == -(-size // 8):
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        if not bits[size:].any():
            return np.flatnonzero(bits[:size])
    elif code < _BITMAP and len(body) % _CODES[code].itemsize == 0:
        gaps = np.frombuffer(body, _CODES[code])
        if not gaps.size or int(gaps.max()) < size:
            places = np.cumsum(gaps.astype(np.int64) + 1) - 1
            if not places.size or places[-1] < size:
                return places
    raise ProtocolViolation(
        f"a message names coordinates that an update of {size} does not have; it was altered."
    )
