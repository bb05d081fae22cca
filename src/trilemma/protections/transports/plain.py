"""The plain transport: each client sends what its transforms made, and the server reads it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protections.protocol import (
    ClientSession,
    Opened,
    Payload,
    RoundInfo,
    ServerSession,
    Transport,
    require_payload,
    require_stage,
)
from trilemma.protections.transforms.compression import decode_positions, encode_positions
from trilemma.protections.transports.wire import (
    array_bytes,
    open_message,
    read_array,
    write_message,
)

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["Plain", "read_update", "write_update"]

_BODY: Final = struct.Struct("<QQQB")  # weight, size of the update, bytes of places, of a value
_STATE: Final = struct.Struct("<Q?")


@dataclass(frozen=True)
class Plain(Transport):
    """No secrecy: the server reads every message and each client's weight."""

    name: ClassVar[str] = "plain"

    @property
    def server_reads(self) -> Literal["messages", "sum", "nothing"]:
        return "messages"

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        round.require_participant(client)
        return _PlainClient(client, round.digest(label))

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        client, sent = _STATE.unpack(state)
        session = _PlainClient(client, round.digest(label))
        session.sent = sent
        return session

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> ServerSession:
        return _PlainServer(round, label)

    def describe(self) -> str:
        return self.name


class _PlainClient(ClientSession):
    def __init__(self, client: int, digest: bytes) -> None:
        self.client, self.digest, self.sent = client, digest, False

    @property
    def wants_update(self) -> bool:
        return not self.sent

    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes:
        require_stage("update", "done" if self.sent else "update")
        message = write_message(
            "PLN", self.digest, self.client, *write_update(require_payload(payload))
        )
        self.sent = True
        return message

    def export(self) -> bytes:
        return _STATE.pack(self.client, self.sent)


class _PlainServer(ServerSession):
    def __init__(self, round: RoundInfo, label: bytes) -> None:
        self.round, self.digest, self.stage = round, round.digest(label), "update"

    def step(self, replies: Mapping[int, bytes]) -> Opened:
        require_stage("update", self.stage)
        self.stage = "done"
        self.round.require_enough(len(replies))
        payloads = {}
        for client, body in sorted(replies.items()):
            self.round.require_participant(client)
            payloads[client] = read_update(open_message("PLN", self.digest, client, body))
        return Opened(payloads)


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
        raise ProtocolViolation("a plain update has an impossible header; it was altered.")
    values = read_array(rest[place_bytes:], np.dtype(f"f{width}"))
    positions = decode_positions(bytes(rest[:place_bytes]), size) if place_bytes else None
    if positions is not None and positions.size != values.size:
        raise ProtocolViolation(
            f"a plain update names {positions.size} coordinates and sends {values.size} values; "
            "it was altered."
        )
    return Payload(values, weight, positions, size)
