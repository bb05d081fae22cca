"""The two sides of a protected round: transforms in front of a transport's sessions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from trilemma.crypto.sealed import Sealed
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transcripts import Released
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transports.base import (
    Aggregate,
    ClientSession,
    Opened,
    Payload,
    ServerSession,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ProtectedClient", "ProtectedServer", "protected"]

_CHECK_BYTES: Final = 16


class ProtectedClient(Sealed):
    """A client's session: its transforms in front of its transport's session."""

    def __init__(
        self,
        protection: Protection,
        round: RoundInfo,
        size: int,
        client: int,
        session: ClientSession,
        entropy: Seeded | System,
        *,
        counts: bool = True,
    ) -> None:
        self.protection, self.round, self.size, self.client = protection, round, size, client
        self.entropy, self._session, self.counts = entropy, session, counts
        self.sent: torch.Tensor | None = None  # the values [m] that left, once they have

    @classmethod
    def start(
        cls,
        protection: Protection,
        client: int,
        round: RoundInfo,
        size: int,
        *,
        secret: Any = None,
        entropy: Seeded | System | None = None,
        state: bytes | None = None,
        least: int = 1,
        counts: bool = True,
    ) -> ProtectedClient:
        """A client's session for updates of `size` coordinates, or the one whose `state` this is.

        `entropy` feeds the transforms' noise: `System()` by default, `Seeded` to measure. Keys
        and masks of the transport come from the system whatever it is. `state` is what `export`
        wrote, in another process; `least` are the fewest clients that this one is summed with.
        `counts` says whether the sum tells how many values lay beyond the transport's range.
        """
        transport, label = protection.transport, protection.label(round, size)
        if state is None:
            session = transport.client(client, round, secret, System(), label)
        else:
            body = state[:-_CHECK_BYTES]
            if state[-_CHECK_BYTES:] != _check(body):
                raise ProtocolViolation(
                    f"the stored state of client {client} in round {round.number} is damaged; "
                    "start a new session."
                )
            session = transport.restore(body, round, secret, System(), label)
        session.least = least
        return cls(protection, round, size, client, session, entropy or System(), counts=counts)

    @property
    def wants_update(self) -> bool:
        """Whether the next step is the one that sends the update."""
        return self._session.wants_update

    def step(
        self,
        inbox: bytes = b"",
        update: torch.Tensor | None = None,
        weight: int = 1,
        shown: bytes = b"",
    ) -> bytes | Released:
        """The reply to the server's message, or the mean where the clients alone may read it.

        `shown` is a digest of what the update was made from, as the server showed it.
        """
        payload = None
        if self.wants_update:
            if update is None:
                raise InvalidInput(
                    f"client {self.client} is to send its update now; pass it with its weight."
                )
            payload = replace(self._payload(update, weight), shown=shown)
            payload = self.protection.transport.in_range(payload, counted=self.counts)
        outcome = self._session.step(inbox, payload)
        if isinstance(outcome, Aggregate):
            return _expand(self.protection, outcome, self.round, self.size)
        return outcome

    def export(self) -> bytes:
        """The session's state, for `restore`; as secret as what it holds."""
        state = self._session.export()
        return state + _check(state)

    @property
    def promised(self) -> Mapping[int, str]:
        """The kind of share that it is to reveal of each peer, once that is settled; no secret."""
        return self._session.promised

    def _payload(self, update: torch.Tensor, weight: int) -> Payload:
        if tuple(update.shape) != (self.size,):
            raise InvalidInput(
                f"client {self.client} has an update of shape {tuple(update.shape)}, but this "
                f"round is for ({self.size},); all must train the same model."
            )
        made = protected(self.protection, update, self.client, self.round, self.entropy)
        self.sent = made.values
        values = _array(made.values)
        public = self.protection.mechanism_info(self.round, self.size, self.client)
        if public.known is not None:
            return Payload(values[public.positions], weight)
        if made.known is None:
            return Payload(values, weight)
        positions = np.flatnonzero(made.known.cpu().numpy())
        return Payload(values[positions], weight, positions, self.size)


class ProtectedServer:
    """The server's session; holds no secret, as its transport's session cannot."""

    def __init__(
        self, protection: Protection, round: RoundInfo, size: int, session: ServerSession
    ) -> None:
        self.protection, self.round, self.size, self.session = protection, round, size, session

    @classmethod
    def start(
        cls, protection: Protection, round: RoundInfo, size: int, *, public: Any = None
    ) -> ProtectedServer:
        """The server's session; `public` is the clients' public key where there is one."""
        session = protection.transport.server(round, public, protection.label(round, size))
        return cls(protection, round, size, session)

    def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes] | Released:
        """The next message to each client, or the mean; clients without a reply dropped out."""
        outcome = self.session.step(replies)
        if isinstance(outcome, Aggregate):
            return _expand(self.protection, outcome, self.round, self.size)
        if isinstance(outcome, Opened):
            return self._average(outcome.payloads)
        return outcome

    def _average(self, payloads: Mapping[int, Payload]) -> Released:
        """Σ_k w_k u_k / Σ_k w_k over all who answered; what a client did not send counts as 0."""
        total, weight = np.zeros(self.size), 0
        due = np.zeros(self.size, np.bool_)
        for client in self.round.participants:
            public = self.protection.mechanism_info(self.round, self.size, client).positions
            due[slice(None) if public is None else public] = True
            if client not in payloads:
                continue
            sent = payloads[client]
            places = public if sent.positions is None else sent.positions
            expected = self.size if places is None else places.size
            if sent.values.size != expected or sent.size not in (0, self.size):
                raise InvalidInput(
                    f"client {client} sent {sent.values.size} coordinates of a model of "
                    f"{sent.size or self.size} where {expected} of {self.size} were due; all must "
                    "train the same model."
                )
            with np.errstate(invalid="ignore", over="ignore"):  # checked once, below
                total[slice(None) if places is None else places] += sent.values * np.float64(
                    sent.weight
                )
            weight += sent.weight
        if not np.isfinite(total).all():
            raise ProtocolViolation("an update contains NaN or infinity; leave its client out.")
        known = None if due.all() else torch.from_numpy(due)
        return Released(torch.from_numpy(total / weight), tuple(payloads), weight, known)


def protected(
    protection: Protection,
    update: torch.Tensor,
    client: int,
    round: RoundInfo,
    entropy: Seeded | System,
) -> SparseUpdate:
    """The update as it leaves the client, if all of it are numbers."""
    if not update.is_floating_point() or not _finite(update):
        raise InvalidInput(
            f"the update of client {client} contains NaN or infinity, or is not of floating "
            "point; leave it out of the round."
        )
    return protection.apply(update, client, round, entropy)


def _check(state: bytes) -> bytes:
    """A checksum of a state, of this length whatever the state."""
    return hashlib.sha256(b"trilemma state" + state).digest()[:_CHECK_BYTES]


def _expand(protection: Protection, aggregate: Aggregate, round: RoundInfo, size: int) -> Released:
    """The mean of the sent values, put back into its places [m], which all clients share."""
    means, share = protection.transport.split_count(aggregate.mean)
    mean = torch.from_numpy(np.ascontiguousarray(means, dtype=np.float64))
    known = protection.mechanism_info(round, size, aggregate.clients[0]).known
    expected = size if known is None else int(known.sum())
    if mean.numel() != expected:
        raise InvalidInput(
            f"the clients sent {mean.numel()} coordinates where {expected} were due; all must "
            "train the same model."
        )
    if known is not None:
        full = mean.new_zeros(size)
        full[known] = mean
        mean = full
    return Released(mean, aggregate.clients, aggregate.weight, known, share)


def _finite(values: torch.Tensor) -> bool:
    """Whether all are numbers: the extremes of a vector with a NaN are NaN."""
    if not values.numel():
        return True
    low, high = torch.aminmax(values)
    return math.isfinite(low) and math.isfinite(high)


def _array(values: torch.Tensor) -> NDArray[Any]:
    """Contiguous 32 or 64-bit floats for the wire."""
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    return values.detach().to("cpu", dtype).contiguous().numpy()
