"""What everyone knows of a round before it starts."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, TooFewClients

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["RoundInfo"]


@dataclass(frozen=True)
class RoundInfo:
    """What everyone knows of a round before it starts; keys and masks are bound to all of it.

    `threshold` is the fewest clients whose sum may be released. `mask_seed` is public, new in
    every round, and chooses the coordinates that random compression sends: as it is where all
    clients send the same, through `of_client` where each sends its own.

    Each of K clients asks of it, so that nothing it is asked again looks at all K.
    """

    run: str
    number: int
    participants: tuple[int, ...]
    threshold: int
    mask_seed: int

    def __post_init__(self) -> None:
        if not self.run:
            raise InvalidInput(
                f"run (the name that keys are bound to) must not be empty, got {self.run!r}."
            )
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

    def __hash__(self) -> int:
        return hash((self.run, self.number, len(self.participants), self.mask_seed))

    def of_client(self, client: int) -> RoundInfo:
        """The round with a mask seed of this client's own, as public as the round's."""
        own = copy.copy(self)  # what is checked already is not checked again
        own.__dict__.update(
            mask_seed=Seeded(self.mask_seed).integer("client", client), _digests={}
        )
        return own

    def digest(self, label: bytes = b"") -> bytes:
        """16 bytes that tell messages of this round (and of this protection) from all others."""
        if label not in self._digests:
            text = repr((self.run, self.number, self.participants, self.threshold, self.mask_seed))
            whole = b"trilemma round" + text.encode() + b"\0" + label
            self._digests[label] = hashlib.sha256(whole).digest()[:16]
        return self._digests[label]

    @cached_property
    def seats(self) -> Mapping[int, int]:
        """The place of each participant among them, from 0."""
        return {client: seat for seat, client in enumerate(self.participants)}

    @cached_property
    def _digests(self) -> dict[bytes, bytes]:
        return {}

    def require_participant(self, client: int) -> None:
        """Raises unless the client takes part."""
        if client not in self.seats:
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
