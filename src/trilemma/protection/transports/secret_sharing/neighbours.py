"""Who holds whose shares and masks with whom: all pairs, or a graph that the clients draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilemma.crypto.neighbourhoods import Neighbourhood
from trilemma.crypto.shamir import SHARE_BYTES, Share
from trilemma.errors import ProtocolViolation, TooFewClients
from trilemma.protection.transports import wire
from trilemma.protection.transports.secret_sharing.signed_lists import (
    drawn,
    read_list,
    write_list,
)

if TYPE_CHECKING:
    from trilemma.entropy import System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Circle"]


@dataclass(frozen=True)
class Circle:
    """The clients of a round, and the neighbourhood that each draws; None for all pairs.

    A client's holders have the shares of its secrets: all clients, itself among them, or those
    that it drew once it had seen who advertised which keys. It masks with them, and with those
    whose shares it holds.
    """

    round: RoundInfo
    graph: Neighbourhood | None = None

    @property
    def threshold(self) -> int:
        """The shares that open a secret."""
        return self.round.threshold if self.graph is None else self.graph.threshold

    @property
    def label(self) -> bytes:
        """What binds messages to the kind of graph."""
        return b"" if self.graph is None else repr(self.graph).encode()

    def draw(self, client: int, entropy: System) -> tuple[int, ...]:
        """The client's holders, in the order of their seats."""
        if self.graph is None:
            return self.round.participants
        others = [participant for participant in self.round.participants if participant != client]
        return tuple(sorted(drawn(others, self.graph.draws, entropy)))

    def require_holders(self, client: int, holders: tuple[int, ...], left: set[int]) -> None:
        """Raises where too few of those that the client drew are left."""
        if self.graph is not None and (here := len(left.intersection(holders))) < self.threshold:
            raise TooFewClients(
                f"{here} of the {len(holders)} clients that client {client} drew are left, fewer "
                f"than the {self.threshold} that open its masks; run a new round."
            )

    def check_seat(self, client: int, peer: int, shares: bytes) -> None:
        """Raises unless a peer sent two shares, in all pairs those of the client's seat."""
        found = [Share.from_bytes(half).index for half in _halves(shares)]
        seat = found[0] if self.graph else self.round.seats[client] + 1
        if found != [seat, seat]:
            raise ProtocolViolation(f"client {peer} sent a share for another client; leave.")

    def write_boxes(self, sharers: tuple[int, ...], boxes: Mapping[int, bytes]) -> bytes:
        """The boxes for one client; in a graph, where few send it one, behind all who shared."""
        table = wire.pack(boxes)
        return table if self.graph is None else wire.pack({0: write_list(sharers), 1: table})

    def read_boxes(
        self, client: int, body: memoryview
    ) -> tuple[tuple[int, ...], dict[int, bytes]]:
        """(all who shared, {client: box} of those who share with this one)."""
        if self.graph is None:
            boxes = wire.unpack(body)
            if client in boxes:
                raise ProtocolViolation(f"the server sent client {client} a share of its own.")
            return tuple(sorted({*boxes, client})), boxes
        parts = wire.unpack(body)
        if set(parts) != {0, 1}:
            raise ProtocolViolation(
                f"boxes in a graph come in the parts 0 and 1, got {sorted(parts)}; it is forged."
            )
        return read_list(parts[0]), wire.unpack(parts[1])

    def neighbours(self, holders: Mapping[int, Iterable[int]]) -> dict[int, set[int]]:
        """Whom each client masks with: those present that it drew or that drew it."""
        found = {client: set[int]() for client in holders}
        for client, drew in holders.items():
            for other in drew:
                if other in found:
                    found[client].add(other)
                    found[other].add(client)
        return found


def _halves(shares: bytes) -> tuple[bytes, bytes]:
    return shares[:SHARE_BYTES], shares[SHARE_BYTES:]
