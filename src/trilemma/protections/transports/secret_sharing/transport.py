"""Secure aggregation (Bonawitz et al.): the server learns the sum of the survivors, no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trilemma.crypto.masking import Ring, check_threshold
from trilemma.crypto.packing import FixedPoint
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protections.protocol import (
    ClientSession,
    RoundInfo,
    Transport,
    check_positive,
)
from trilemma.protections.transports.secret_sharing.client import SharingClient
from trilemma.protections.transports.secret_sharing.identity import Identity
from trilemma.protections.transports.secret_sharing.server import SharingServer

__all__ = ["SecretSharing"]


@dataclass(frozen=True)
class SecretSharing(Transport):
    """Masks in Z_2^ring_bits on fixed-point updates: four steps, dropouts handled at each.

    A single masked update is uniform on the ring, up to the security of AES and X25519; there is
    nothing to tune. Holds against a server that follows the protocol and up to t - 1 clients that
    help it, t the round's threshold; and against one that swaps keys, where clients have an
    `Identity`. The server still sees the sum: attack that. That a masked vector arrives as it was
    sent is left to the connection (TLS).

    `clip_range` is the largest coordinate, `precision_bits` the bits of a value, `max_weight` the
    public cap on the sum of all weights.
    """

    clip_range: float = 1.0
    precision_bits: int = 16
    ring_bits: int = 32
    max_weight: int = 10_000

    name: ClassVar[str] = "secret-sharing"
    caveat: ClassVar[str] = (
        "the server reads the sum, and is trusted to follow the protocol unless clients pin each "
        "other's identities; the threshold's number of clients together can open an update."
    )

    def __post_init__(self) -> None:
        check_positive("clip_range (largest coordinate)", self.clip_range)
        _ = self.ring  # checks the rest

    @property
    def ring(self) -> Ring:
        """How updates are laid out in the ring."""
        fixed = FixedPoint(self.clip_range, self.precision_bits, self.max_weight)
        return Ring(fixed, self.ring_bits)

    @property
    def server_reads(self) -> Literal["messages", "sum", "nothing"]:
        return "sum"

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """A session with fresh keys.

        `secret` is None, or the client's `Identity`: then it signs its keys and leaves where a
        peer's are not signed by the pinned one.
        """
        self._check(round)
        round.require_participant(client)
        return SharingClient.start(
            client, round, self.ring, entropy, self._label(label), _identity(secret)
        )

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        self._check(round)
        return SharingClient.restore(
            state, round, self.ring, entropy, self._label(label), _identity(secret)
        )

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> SharingServer:
        self._check(round)
        return SharingServer(round, self.ring, self._label(label))

    def describe(self) -> str:
        return (
            f"{self.name}:clip_range={self.clip_range!r},precision_bits={self.precision_bits},"
            f"ring_bits={self.ring_bits},max_weight={self.max_weight}"
        )

    def step_size(self) -> float:
        return self.ring.fixed.step

    def _check(self, round: RoundInfo) -> None:
        check_threshold(round.threshold, len(round.participants))

    def _label(self, label: bytes) -> bytes:
        return self.describe().encode() + b"\0" + label


def _identity(secret: Any) -> Identity | None:
    if secret is None or isinstance(secret, Identity):
        return secret
    raise InvalidInput(
        f"secret sharing takes an Identity as its secret, or none, got {type(secret).__name__}."
    )
