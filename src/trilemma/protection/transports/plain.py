"""The plain transport: each client sends what its transforms made, and the server reads it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from trilemma.protection.transports.base import (
    ClientSession,
    Opened,
    Payload,
    Reads,
    ServerSession,
    Transport,
    require_payload,
    require_stage,
)
from trilemma.protection.transports.plain_payloads import read_update, write_update
from trilemma.protection.transports.wire import open_message, write_message

if TYPE_CHECKING:
    from trilemma.entropy import System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Plain"]

_STATE: Final = struct.Struct("<Q?")


@dataclass(frozen=True)
class Plain(Transport):
    """No secrecy: the server reads every message and each client's weight."""

    name: ClassVar[str] = "plain"

    @property
    def server_reads(self) -> Reads:
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
        return _PlainServer(self, round, label)

    def read(self, message: bytes, client: int, round: RoundInfo, label: bytes = b"") -> Payload:
        return read_update(open_message("PLN", round.digest(label), client, message))

    def words(self, number: Callable[[float], str]) -> str:
        return ""


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
    def __init__(self, transport: Plain, round: RoundInfo, label: bytes) -> None:
        self.transport, self.round, self.label, self.stage = transport, round, label, "update"

    def step(self, replies: Mapping[int, bytes]) -> Opened:
        require_stage("update", self.stage)
        self.stage = "done"
        self.round.require_enough(len(replies))
        payloads = {}
        for client, body in sorted(replies.items()):
            self.round.require_participant(client)
            payloads[client] = self.transport.read(body, client, self.round, self.label)
        return Opened(payloads)
