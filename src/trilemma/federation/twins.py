"""A transport's arithmetic without its cryptography: the same numbers, thousands of times faster.

Paillier and secure aggregation compute Σ w_k q_k exactly, in whole units of the fixed-point grid;
so does the twin, in the clear. Utility can be measured with it, never secrecy, bits or seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from trilemma.crypto.packing import FixedPoint
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protections.protection import Protection
from trilemma.protections.protocol import (
    Aggregate,
    ClientSession,
    Payload,
    RoundInfo,
    ServerSession,
    Transport,
    check_range,
    require_payload,
)
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.protections.transports.wire import read_array

__all__ = ["FixedPointTwin", "twin_of"]


@dataclass(frozen=True)
class FixedPointTwin(Transport):
    """Sends [w, w q_1, ..., w q_m] as plain 64-bit integers: for measurement alone."""

    fixed: FixedPoint
    reads: Literal["messages", "sum", "nothing"] = "sum"

    name: ClassVar[str] = "fixed-point twin"

    @property
    def server_reads(self) -> Literal["messages", "sum", "nothing"]:
        """What the twin's original leaves the server, so that the same transforms go with it."""
        return self.reads

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        round.require_participant(client)
        return _TwinClient(self.fixed, client)

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """Refused: a twin takes one step, in one process."""
        raise InvalidInput("a fixed-point twin lives in one process; use its original elsewhere.")

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> ServerSession:
        return _TwinServer(self.fixed, round)

    def describe(self) -> str:
        return self.name

    def step_size(self) -> float:
        return self.fixed.step


def twin_of(protection: Protection) -> Protection | None:
    """The protection with its transport's twin, or None where the transport is its own."""
    transport = protection.transport
    if isinstance(transport, SecretSharing):
        fixed = transport.ring.fixed
    elif isinstance(transport, Paillier):
        fixed = FixedPoint(transport.clip_range, transport.precision_bits, transport.max_weight)
    else:
        return None
    return replace(protection, transport=FixedPointTwin(fixed, transport.server_reads))


class _TwinClient(ClientSession):
    def __init__(self, fixed: FixedPoint, client: int) -> None:
        self.fixed, self.client, self.done = fixed, client, False

    @property
    def wants_update(self) -> bool:
        return not self.done

    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes:
        sent = require_payload(payload)
        check_range(sent.values, self.fixed.clip, self.client)
        weight = self.fixed.check_weight(sent.weight)
        self.done = True
        head = np.array([weight], "<i8").tobytes()
        return b"".join((head, *(b.tobytes() for b in self.fixed.blocks(sent.values, weight))))

    def export(self) -> bytes:
        """Refused, as `FixedPointTwin.restore` is."""
        raise InvalidInput("a fixed-point twin lives in one process; use its original elsewhere.")


class _TwinServer(ServerSession):
    def __init__(self, fixed: FixedPoint, round: RoundInfo) -> None:
        self.fixed, self.round = fixed, round

    def step(self, replies: Mapping[int, bytes]) -> Aggregate:
        self.round.require_enough(len(replies))
        vectors = [read_array(replies[client], np.dtype("i8")) for client in sorted(replies)]
        if len({each.size for each in vectors}) > 1:
            raise InvalidInput("clients sent vectors of unlike sizes; all must train one model.")
        total = np.sum(vectors, axis=0)
        summed = self.fixed.sum(total[1:], int(total[0]), len(replies))
        return Aggregate(summed.mean, tuple(sorted(replies)), summed.weight)
