"""What a transport is: it carries updates by two kinds of session, a client's and the server's.

A client's session may hold secrets, the server's cannot. They exchange plain bytes, one `step` at
a time, so that the in-process federation and a network adapter drive the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from trilemma.crypto.sealed import Sealed
from trilemma.errors import InvalidInput, ProtocolViolation, SecretExposure
from trilemma.protection.spec_texts import described

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    from trilemma.crypto.packing import FixedPoint
    from trilemma.entropy import System
    from trilemma.protection.round_info import RoundInfo

__all__ = [
    "LEAST_NOISE",
    "Aggregate",
    "Brings",
    "ClientSession",
    "Opened",
    "Payload",
    "Reads",
    "ServerSession",
    "Transport",
    "check_whole",
    "require_payload",
    "require_stage",
]

LEAST_NOISE: Final = 2.0  # steps of a grid; see `Transport.least_noise`
Reads = Literal["messages", "sum", "nothing"]
"""What a transport leaves the server."""
Brings = Literal["nothing", "key", "identity"]
"""What a client brings: the key that all share, or an identity, which it may do without."""


@dataclass(frozen=True)
class Payload:
    """What a client hands to its transport: the values that are sent, its weight, their places.

    `positions` (rising, below `size`) is None where everyone knows the places. `shown` is a digest
    of what the update was made from, as the server showed it: the same for all whose sum is taken.
    """

    values: NDArray[Any]
    weight: int
    positions: NDArray[Any] | None = None
    size: int = 0
    shown: bytes = b""

    def __post_init__(self) -> None:
        check_whole(self.weight)


def check_whole(weight: int) -> None:
    """Raises unless a client's weight is a whole number of at least 1."""
    whole = isinstance(weight, int | np.integer) and not isinstance(weight, bool)
    if not whole or weight < 1:
        raise InvalidInput(
            f"weight (a client's number of records) must be a whole number of at least 1, "
            f"got {weight!r}."
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

    `least` is the client's own: the fewest clients that it lets itself be summed with, where the
    protocol tells it how many are left.
    """

    least: int = 1

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

    @property
    def promised(self) -> Mapping[int, str]:
        """The kind of share that it is to reveal of each peer, once that is settled; no secret."""
        return {}


class ServerSession(ABC):
    """The server's side of one round; refuses to keep anything that is `Sealed`.

    After an error it is spent: a failed round leaves nothing that a later one could use. `shown`
    is the digest of what all clients were shown, to be set before they send updates.
    """

    shown: bytes = b""

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

    It answers all that others ask of it, so that nobody has to know which transport it is.
    """

    name: ClassVar[str]
    caveat: ClassVar[str] = ""  # a sentence that belongs beside every result
    preparations: ClassVar[int] = 0  # exchanges before the one that carries updates
    brings: ClassVar[Brings] = "nothing"

    @property
    def alike(self) -> int | None:
        """So many coordinates cost what any as many others do; None: no part stands for all."""
        return None

    @property
    @abstractmethod
    def server_reads(self) -> Reads:
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

    @classmethod
    def fitted(
        cls,
        reach: float,  # noqa: ARG003
        max_weight: int,  # noqa: ARG003
        noise: float = 0.0,  # noqa: ARG003
    ) -> Self:
        """Laid out for coordinates up to `reach`, weights that add up to `max_weight` at most.

        Noise of deviation `noise` must not be lost on its way.
        """
        return cls()

    def describe(self) -> str:
        """The transport as text that `parse_protection` reads."""
        return described(self)

    def words(self, number: Callable[[float], str]) -> str:
        """What it does, as the object of "use …"; nothing for nothing."""
        return self.describe()

    @property
    def fixed(self) -> FixedPoint | None:
        """The grid on which it carries values; None where they travel as they are."""
        return None

    def step_size(self) -> float:
        """The step of its grid, 0 for none. A mean errs by half of it at most."""
        return 0.0 if self.fixed is None else self.fixed.step

    def least_noise(self) -> float:
        """The least standard deviation of noise that it carries as noise.

        Two steps of the grid: from there on a sum of rounded noises is a rounded sum of noises;
        on each coordinate they differ by less than exp(-2π²·4), about 1e-34.
        """
        return LEAST_NOISE * self.step_size()

    def in_range(self, payload: Payload, *, counted: bool = True) -> Payload:
        """The payload as it can be carried; a grid counts behind it what lay beyond its range.

        Unless `counted` it says 0 there: noise in a sum hides no count of one client.
        """
        return payload

    def split_count(self, mean: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """A mean of what `in_range` made: of the values, and the share beyond the range."""
        return mean, 0.0

    def read(self, message: bytes, client: int, round: RoundInfo, label: bytes = b"") -> Payload:
        """What the server reads in one client's message, where it reads messages."""
        raise SecretExposure(f"{self.name} shows nobody a single update; ask for the sum.")

    def opened(self) -> Transport:
        """The same, with which the server reads at least the sum: for metrics and the like."""
        return self

    def check_threshold(self, threshold: int, clients: int) -> None:  # noqa: B027 (most ask for nothing)
        """Raises where a sum of so few of the clients would not be safe."""

    def honest(self, clients: int, threshold: int, helpers: int) -> int:
        """The honest clients, at least, whose noise is in all that an attacker reads of a round.

        A round of so many clients ends with `threshold` of them; `helpers` tell it what they know.
        """
        return 1

    def new_secret(self, entropy: System) -> Any:
        """A fresh key for all clients, where one is needed."""
        return None

    def load_secret(self, path: Path) -> Any:
        """The clients' key from its file."""
        raise InvalidInput(f"{self.name} has no key that clients share, so {path} is not read.")

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


def _holds_secret(value: object) -> bool:
    if isinstance(value, Sealed):
        return True
    if isinstance(value, Mapping):
        return any(_holds_secret(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds_secret(item) for item in value)
    return False
