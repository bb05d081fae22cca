"""A transport's arithmetic without its cryptography: the same numbers, thousands of times faster.

Paillier and secure aggregation compute Σ w_k q_k exactly, in whole units of the fixed-point grid;
so does the twin, in the clear. Utility can be measured with it, never secrecy, bits or seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.protections.transports.base import (
    Aggregate,
    ClientSession,
    Payload,
    Reads,
    ServerSession,
    require_payload,
)
from trilemma.protections.transports.fixed_point import FixedPointTransport, check_range
from trilemma.protections.transports.wire import read_array

if TYPE_CHECKING:
    from trilemma.entropy import System
    from trilemma.protections.round_info import RoundInfo

__all__ = ["FixedPointTwin"]


@dataclass(frozen=True, kw_only=True)
class FixedPointTwin(FixedPointTransport):
    """Sends [w, w q_1, ..., w q_m] as plain 64-bit integers: for measurement alone."""

    reads: Reads = "sum"

    name: ClassVar[str] = "fixed-point twin"

    @classmethod
    def of(cls, original: FixedPointTransport) -> FixedPointTwin:
        """The twin of a transport, on the same grid."""
        return cls(
            clip_range=original.clip_range,
            precision_bits=original.precision_bits,
            max_weight=original.max_weight,
            reads=original.server_reads,
        )

    @property
    def server_reads(self) -> Reads:
        """What the twin's original leaves the server, so that the same transforms go with it."""
        return self.reads

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        round.require_participant(client)
        return _TwinClient(self, client)

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """Refused: a twin takes one step, in one process."""
        raise InvalidInput("a fixed-point twin lives in one process; use its original elsewhere.")

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> ServerSession:
        return _TwinServer(self, round)

    def describe(self) -> str:
        return self.name


class _TwinClient(ClientSession):
    def __init__(self, transport: FixedPointTwin, client: int) -> None:
        self.transport, self.client, self.done = transport, client, False

    @property
    def wants_update(self) -> bool:
        return not self.done

    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes:
        sent, fixed = require_payload(payload), self.transport.fixed
        check_range(sent.values, fixed, self.client)
        weight = fixed.check_weight(sent.weight)
        self.done = True
        head = np.array([weight], "<i8").tobytes()
        return b"".join((head, *(b.tobytes() for b in fixed.blocks(sent.values, weight))))

    def export(self) -> bytes:
        """Refused, as `FixedPointTwin.restore` is."""
        raise InvalidInput("a fixed-point twin lives in one process; use its original elsewhere.")


class _TwinServer(ServerSession):
    def __init__(self, transport: FixedPointTwin, round: RoundInfo) -> None:
        self.transport, self.round = transport, round

    def step(self, replies: Mapping[int, bytes]) -> Aggregate:
        self.round.require_enough(len(replies))
        vectors = [read_array(replies[client], np.dtype("i8")) for client in sorted(replies)]
        if len({each.size for each in vectors}) > 1:
            raise InvalidInput("clients sent vectors of unlike sizes; all must train one model.")
        total = np.sum(vectors, axis=0)
        summed = self.transport.fixed.sum(total[1:], int(total[0]), len(replies))
        return Aggregate(summed.mean, tuple(sorted(replies)), summed.weight)
