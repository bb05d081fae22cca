"""The protocol half of a mechanism: transforms change an update, transports carry it.

A `Transform` is noise, compression or a bounded mask: one frozen instance is one parameter value.
A `Transport` makes two kinds of session: a client's, which may hold secrets, and the server's,
which cannot. Sessions exchange plain bytes, one `step` at a time, so that the in-process
federation and a network adapter drive the same code.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from trilemma.crypto.sealed import Sealed
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, ProtocolViolation, SecretExposure, TooFewClients
from trilemma.quantities import positive

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from trilemma.entropy import System
    from trilemma.observations import Noise

__all__ = [
    "Aggregate",
    "ClientSession",
    "Knowledge",
    "Masked",
    "Opened",
    "Payload",
    "RoundInfo",
    "ServerSession",
    "Transform",
    "Transport",
    "check_positive",
    "check_range",
    "require_payload",
    "require_stage",
]


@dataclass(frozen=True)
class RoundInfo:
    """What everyone knows of a round before it starts; keys and masks are bound to all of it.

    `threshold` is the fewest clients whose sum may be released. `mask_seed` is public, new in
    every round, and chooses the coordinates that random compression sends: as it is where all
    clients send the same, through `of_client` where each sends its own.
    """

    run: str
    number: int
    participants: tuple[int, ...]
    threshold: int
    mask_seed: int

    def __post_init__(self) -> None:
        if not self.run:
            raise InvalidInput("run (the name that keys are bound to) must not be empty.")
        for name in ("number", "mask_seed"):
            if not 0 <= getattr(self, name) < 1 << 63:
                raise InvalidInput(f"{name} must lie in 0 .. 2^63 - 1, got {getattr(self, name)}.")
        who = self.participants
        if not who or any(a >= b for a, b in pairwise(who)):
            raise InvalidInput(
                f"participants must be one or more distinct numbers in rising order, got {who}."
            )
        if who[0] < 0 or who[-1] >= 1 << 63:
            raise InvalidInput(f"a client's number must lie in 0 .. 2^63 - 1, got {who}.")
        if not 1 <= self.threshold <= len(who):
            raise InvalidInput(
                f"threshold (fewest clients whose sum is released) must lie in 1 .. {len(who)}, "
                f"the number of participants, got {self.threshold}."
            )

    @classmethod
    def new(
        cls,
        participants: Sequence[int],
        entropy: Seeded | System,
        *,
        run: str = "run",
        number: int = 0,
        threshold: int | None = None,
    ) -> RoundInfo:
        """A round with a fresh mask seed; the threshold is two thirds of the clients, plus one.

        >>> from trilemma.entropy import Seeded
        >>> RoundInfo.new(range(10), Seeded(1)).threshold
        7
        """
        who = tuple(sorted(participants))
        if isinstance(entropy, Seeded):
            mask_seed = entropy.integer("mask seed", run, number)
        else:
            mask_seed = entropy.bits(63)
        enough = min(len(who), 2 * len(who) // 3 + 1) if threshold is None else threshold
        return cls(run, number, who, enough, mask_seed)

    def of_client(self, client: int) -> RoundInfo:
        """The round with a mask seed of this client's own, as public as the round's."""
        return replace(self, mask_seed=Seeded(self.mask_seed).integer("client", client))

    def digest(self, label: bytes = b"") -> bytes:
        """16 bytes that tell messages of this round (and of this protection) from all others."""
        text = repr((self.run, self.number, self.participants, self.threshold, self.mask_seed))
        return hashlib.sha256(b"trilemma round" + text.encode() + b"\0" + label).digest()[:16]

    def require_participant(self, client: int) -> None:
        """Raises unless the client takes part."""
        if client not in self.participants:
            raise InvalidInput(
                f"client {client} takes no part in round {self.number}; its participants are "
                f"{self.participants}."
            )

    def require_enough(self, clients: int) -> None:
        """Raises when fewer clients than the threshold are left."""
        if clients < self.threshold:
            raise TooFewClients(
                f"{clients} of {len(self.participants)} clients are left in round {self.number}, "
                f"fewer than its threshold of {self.threshold}; run a new round."
            )


@dataclass(frozen=True)
class Masked:
    """An update on its way out: values [m], and which coordinates are sent (None: all).

    Coordinates that are not sent hold zero.
    """

    values: torch.Tensor
    known: torch.Tensor | None = None


@dataclass(frozen=True)
class Knowledge:
    """What everyone knows of how a client made its values: gain · (clip(u) + noise) where known.

    An adversary divides by `gain` (1/ρ for unbiased compression). `known` is None where all
    coordinates are sent, or where each message says which.
    """

    known: torch.Tensor | None = None
    gain: float | torch.Tensor = 1.0
    noise: Noise | None = None
    clip: float | None = None

    @cached_property
    def positions(self) -> NDArray[np.int64] | None:
        """The places of the known coordinates, rising."""
        return None if self.known is None else np.flatnonzero(self.known.numpy())

    def with_noise(self, kind: Literal["gaussian", "uniform"], scale: float) -> Knowledge:
        """With noise of this scale on the sent values, here in units of the update."""
        from trilemma.observations import Noise  # imports torch

        if not isinstance(self.gain, float):
            raise InvalidInput(
                "noise after a compression with several keep probabilities has another scale on "
                "each coordinate; put the noise before the compression."
            )
        return replace(self, noise=Noise(kind, scale / self.gain))


class Transform(ABC):
    """Changes an update before it is sent; frozen, and one instance is one parameter value.

    `entropy` belongs to the whole round; a transform takes from it the stream of its own name and
    client, so that two clients never share noise by accident. `round.mask_seed` is the client's
    own where the protection lets clients send different coordinates.
    """

    name: ClassVar[str]
    adds_noise: ClassVar[bool] = False
    thins: ClassVar[bool] = False  # sends some coordinates only
    selects_by_value: ClassVar[bool] = False  # which coordinates are sent depends on the update
    cancels: ClassVar[bool] = False  # adds up to zero over all clients
    caveat: ClassVar[str] = ""  # a sentence that belongs beside every result
    clip: float | None = None

    @abstractmethod
    def apply(
        self, update: Masked, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Masked:
        """What leaves the client; the given update is not changed."""

    @abstractmethod
    def reveal(self, knowledge: Knowledge, round: RoundInfo, size: int) -> Knowledge:
        """What everyone knows after this transform, given what was known before it."""

    @abstractmethod
    def describe(self) -> str:
        """The transform as text that `parse_protection` reads."""


@dataclass(frozen=True)
class Payload:
    """What a client hands to its transport: the values that are sent, its weight, their places.

    `positions` (rising, below `size`) is None where everyone knows the places.
    """

    values: NDArray[Any]
    weight: int
    positions: NDArray[Any] | None = None
    size: int = 0

    def __post_init__(self) -> None:
        whole = isinstance(self.weight, int | np.integer) and not isinstance(self.weight, bool)
        if not whole or self.weight < 1:
            raise InvalidInput(
                f"weight (a client's number of records) must be a whole number of at least 1, "
                f"got {self.weight!r}."
            )


@dataclass(frozen=True)
class Aggregate:
    """The weighted mean of the values that all clients sent for the same places, and Σ weights."""

    mean: NDArray[Any]
    clients: tuple[int, ...]
    weight: int


@dataclass(frozen=True)
class Opened:
    """What each client sent, where the server reads single messages."""

    payloads: Mapping[int, Payload]


class ClientSession(Sealed, ABC):
    """One client's side of one round.

    A step may answer once: a step that failed or was answered is never repeated. `export` gives
    the state as bytes, which hold its secrets; store them before the reply goes out.
    """

    @property
    @abstractmethod
    def wants_update(self) -> bool:
        """Whether the next step is the one that sends the update."""

    @abstractmethod
    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes | Aggregate:
        """The reply to the server's message (empty for the first), or the opened mean."""

    @abstractmethod
    def export(self) -> bytes:
        """The session's state, for `Transport.restore`; as secret as what it holds."""


class ServerSession(ABC):
    """The server's side of one round; refuses to keep anything that is `Sealed`.

    After an error it is spent: a failed round leaves nothing that a later one could use.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if _holds_secret(value):
            raise SecretExposure(
                f"a server session cannot keep a secret, but {name} holds one; leave it with the "
                "client, or in a local variable."
            )
        super().__setattr__(name, value)

    @abstractmethod
    def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes] | Aggregate | Opened:
        """The next message to each client, or what the server may read: the mean, or each update.

        `replies` are the last messages of the clients that answered; the others have dropped out.
        """


class Transport(ABC):
    """Carries updates. There is nothing to tune below its security floor.

    `server_reads` says what it leaves the server: every message, the sum, or nothing.
    """

    name: ClassVar[str]
    caveat: ClassVar[str] = ""  # a sentence that belongs beside every result

    @property
    @abstractmethod
    def server_reads(self) -> Literal["messages", "sum", "nothing"]:
        """What the server can read."""

    @abstractmethod
    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """A client's session; `label` is bound into each message, so that unlike ones collide."""

    @abstractmethod
    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """The session that `ClientSession.export` wrote, in another process."""

    @abstractmethod
    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> ServerSession:
        """The server's session, from public values only."""

    @abstractmethod
    def describe(self) -> str:
        """The transport as text that `parse_protection` reads."""

    def step_size(self) -> float:
        """The grid on which it carries values; 0 for none. A mean errs by half of it at most."""
        return 0.0

    def public(self, secret: Any) -> Any:
        """What the server may know of the clients' secret."""
        return None


def require_stage(expected: str, stage: str) -> None:
    """Raises unless a session is where the message needs it to be."""
    if stage != expected:
        raise ProtocolViolation(
            f"this session is at stage {stage!r}, and that request belongs to {expected!r}; each "
            "stage is answered once, so start a new round."
        )


def require_payload(payload: Payload | None) -> Payload:
    """The payload of the step that sends the update."""
    if payload is None:
        raise InvalidInput("this step sends the update; pass it with its weight.")
    return payload


def check_range(values: NDArray[Any], clip_range: float, client: int) -> None:
    """Raises unless every value is a number within the transport's range."""
    largest = max(-float(values.min()), float(values.max())) if values.size else 0.0
    if not largest <= clip_range:  # so that NaN is caught, which min and max pass on
        raise InvalidInput(
            f"client {client} would send a coordinate of magnitude {largest:g}, beyond the "
            f"transport's clip_range of {clip_range:g}; clip the update, or raise clip_range."
        )


def check_positive(what: str, value: float) -> None:
    """Raises unless the value is a positive finite number."""
    positive(what, value)


def _holds_secret(value: object) -> bool:
    if isinstance(value, Sealed):
        return True
    if isinstance(value, Mapping):
        return any(_holds_secret(each) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds_secret(each) for each in value)
    return False
