"""Secure aggregation (Bonawitz et al.): the server learns the sum of the survivors, no more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from trilemma.crypto.masking import Ring, check_threshold
from trilemma.crypto.neighbourhoods import CORRUPT, neighbourhood
from trilemma.errors import InvalidInput
from trilemma.protection.transports.base import Brings, ClientSession, Reads
from trilemma.protection.transports.fixed_point import FixedPointTransport, fitting
from trilemma.protection.transports.secret_sharing.aggregation_client import SharingClient
from trilemma.protection.transports.secret_sharing.aggregation_server import SharingServer
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.neighbours import Circle
from trilemma.quantities import finite

if TYPE_CHECKING:
    from trilemma.entropy import System
    from trilemma.protection.round_info import RoundInfo

__all__ = ["SecretSharing"]


@dataclass(frozen=True, kw_only=True)
class SecretSharing(FixedPointTransport):
    """Masks in Z_2^ring_bits on fixed-point updates: four steps, dropouts handled at each.

    A single masked update is uniform on the ring, up to the security of AES and X25519; there is
    nothing to tune. Holds against a server that follows the protocol and up to t - 1 clients that
    help it, t the round's threshold. Where clients have an `Identity` it holds against a server
    that lies, too, and fewer than 2t - n of n clients that help it: t > 2n/3, whoever advertised
    keys must share, and one step more where one drops out after that. The server still sees the
    sum: attack that. That a masked vector arrives as it was sent is left to the connection (TLS).

    Where it pays (`trilemma.crypto.neighbourhoods`), clients mask with neighbours that they draw
    instead of all: then as many may help the server as the share `corrupt` of all clients, chosen
    before the draws, but for a probability of 2^-40. More of them need more neighbours, up to all.
    """

    ring_bits: int = 32
    corrupt: float = CORRUPT

    name: ClassVar[str] = "secret-sharing"
    caveat: ClassVar[str] = (
        "A server that lies, unless clients pin each other's identities. It reads the sum; where "
        "identities are pinned it may lie while fewer than 2t - n of n clients help it, t being "
        "the threshold, above 2n/3; in a cohort so large that they mask with neighbours alone, no "
        "more than the share `corrupt` of them."
    )
    preparations: ClassVar[int] = 2
    brings: ClassVar[Brings] = "identity"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ring_bits", self.ring.bits)
        what = "corrupt (share of the clients that may help the server)"
        share = finite(what, self.corrupt)
        if not 0 <= share < 1:
            raise InvalidInput(f"{what} must lie in 0 .. 1, below 1, got {share:g}.")
        object.__setattr__(self, "corrupt", share)

    @classmethod
    def fitted(cls, reach: float, max_weight: int, noise: float = 0.0) -> SecretSharing:
        """In a ring of 32 bits if their sum fits into it, else of 64."""
        fixed = fitting(reach, max_weight, noise)
        return cls(
            clip_range=fixed.clip,
            precision_bits=fixed.bits,
            max_weight=max_weight,
            ring_bits=32 if fixed.levels * max_weight < 1 << 31 else 64,
        )

    @cached_property
    def ring(self) -> Ring:
        """How updates are laid out in the ring."""
        return Ring(self.fixed, self.ring_bits)

    @property
    def server_reads(self) -> Reads:
        return "sum"

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """A session with fresh keys.

        `secret` is None, or the client's `Identity`: then it signs its keys and the lists that it
        is shown, and leaves where a peer's are not signed by the pinned one.
        """
        identity, circle = _checked(secret, round), self.circle(round)
        round.require_participant(client)
        label = self.bound_label(label) + circle.label
        return SharingClient.start(client, circle, self.ring, entropy, label, identity)

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        identity, circle = _checked(secret, round), self.circle(round)
        label = self.bound_label(label) + circle.label
        return SharingClient.restore(state, circle, self.ring, entropy, label, identity)

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> SharingServer:
        self.check_threshold(round.threshold, len(round.participants))
        circle = self.circle(round)
        return SharingServer(circle, self.ring, self.bound_label(label) + circle.label)

    def circle(self, round: RoundInfo) -> Circle:
        """All pairs of the round's clients, or the graph that they draw where that is sparse."""
        clients = len(round.participants)
        return Circle(round, neighbourhood(clients, round.threshold, self.corrupt))

    def describe(self) -> str:
        return (
            f"{self.name}:clip_range={self.clip_range!r},precision_bits={self.precision_bits},"
            f"ring_bits={self.ring_bits},max_weight={self.max_weight}"
            + ("" if self.corrupt == CORRUPT else f",corrupt={self.corrupt!r}")
        )

    def words(self, number: Callable[[float], str]) -> str:
        return "secret sharing"

    def honest(self, clients: int, threshold: int, helpers: int) -> int:
        """T - c, of all pairs; in a graph as many less as a server may keep out of a sum.

        There c is the share `corrupt` of all clients, for which the graph was drawn.

        >>> SecretSharing().honest(10, 7, 1), SecretSharing().honest(400, 267, 1)
        (6, 223)
        """
        if (graph := neighbourhood(clients, threshold, self.corrupt)) is None:
            return threshold - helpers
        return threshold - max(helpers, math.floor(self.corrupt * clients)) - graph.missing

    def check_threshold(self, threshold: int, clients: int) -> None:
        check_threshold(threshold, clients)


def _checked(secret: Any, round: RoundInfo) -> Identity | None:
    """The identity, if there is one, under which the round's threshold is high enough."""
    if secret is not None and not isinstance(secret, Identity):
        raise InvalidInput(
            f"secret sharing takes an Identity as its secret, or none, got "
            f"{type(secret).__name__}."
        )
    check_threshold(round.threshold, len(round.participants), pinned=secret is not None)
    return secret
