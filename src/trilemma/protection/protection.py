"""What a federation runs: transforms that change each update, and what carries it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transports import PLAIN
from trilemma.protection.transports.base import Transport

__all__ = ["Protection"]


@dataclass(frozen=True)
class Protection:
    """Transforms in the order in which a client applies them, then a transport; `()` is none.

    >>> from trilemma.protection.transforms.compression import Compression
    >>> from trilemma.protection.transforms.randomization import Randomization
    >>> Protection((Randomization(0.01, clip=1.0), Compression(0.5))).describe()
    'randomization:variance=0.01,clip=1.0+compression:keep=0.5'
    >>> Protection().describe()
    'none'
    """

    transforms: tuple[Transform, ...] = ()
    transport: Transport = PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "transforms", tuple(self.transforms))
        if sentence := self._refusal():
            raise InvalidInput(sentence)

    def _refusal(self) -> str | None:
        """Why the parts contradict each other, in one sentence."""
        return self._parts_refusal() or self._noise_refusal()

    def _parts_refusal(self) -> str | None:
        """Why a part is one too many, or shows what another hides."""
        hides = self.transport.server_reads != "messages"
        for several, what in ((self._noisy, "noise"), (self._thinning, "compression")):
            if len(several) > 1:
                return (
                    f"{several[0].name} and {several[1].name} both are {what}; use one of them, "
                    "as an attacker is told of one."
                )
        for transform in self.transforms:
            if transform.selects_by_value and (hides or self.cancels):
                return (
                    f"{transform.name} chooses coordinates by their value and so shows which are "
                    "large, where single updates are to be hidden; use compression:keep=... ."
                )
            if transform.cancels and hides:
                return (
                    f"{self.transport.name} hides single updates already, so bounded masks add "
                    "nothing; leave them out."
                )
        return None

    def _noise_refusal(self) -> str | None:
        """Why noise behind a compression, or on the transport's grid, is not what it says."""
        for first, noise in product(self._thinning, self._noisy):
            if self.transforms.index(first) > self.transforms.index(noise):
                continue
            if noise.clip is not None:
                return (
                    "a clip must bound the whole update; put the transform that clips before "
                    f"{first.name}."
                )
            if not first.one_gain:
                return (
                    "noise after a compression with several keep probabilities has another scale "
                    "on each coordinate; put the noise before the compression."
                )
        for item in self._noisy:
            if item.scale < self.transport.least_noise():
                return (
                    f"noise of standard deviation {item.scale:g} is lost on the transport's grid "
                    f"of {self.transport.step_size():g}, which needs twice its step; raise "
                    "precision_bits, or the variance."
                )
        return None

    @property
    def _noisy(self) -> list[Transform]:
        return [transform for transform in self.transforms if transform.scale > 0]

    @property
    def _thinning(self) -> list[Transform]:
        return [transform for transform in self.transforms if transform.thins]

    @property
    def parts(self) -> tuple[Transform | Transport, ...]:
        """All that an update passes, in order."""
        return (*self.transforms, self.transport)

    def describe(self) -> str:
        """The protection as text that `parse_protection` reads."""
        return "+".join(part.describe() for part in self.parts if part != PLAIN) or "none"

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that belong beside every result under this protection."""
        return tuple(part.caveat for part in self.parts if part.caveat)

    @property
    def own_places(self) -> bool:
        """Whether each client sends coordinates of its own: where nothing has to align in a sum.

        Only a server that reads single messages can add them up place by place, and masks cancel
        only where all clients send theirs.
        """
        reads_messages = self.transport.server_reads == "messages"
        return reads_messages and self.thins and not self.cancels

    @property
    def thins(self) -> bool:
        """Whether some coordinates only are sent."""
        return any(transform.thins for transform in self.transforms)

    def timed_on(self, length: int) -> int:
        """How many coordinates of an update stand for all when a round is timed.

        All where some only are sent: of a part of those hardly any might be left.
        """
        return length if self.thins else min(length, self.transport.alike or length)

    @property
    def cancels(self) -> bool:
        """Whether clients send masks that add up to zero over all of them."""
        return any(transform.cancels for transform in self.transforms)

    def label(self, round: RoundInfo, size: int) -> bytes:
        """Protection, size and common places: clients that differ in these cannot be summed."""
        places = b""
        if not self.own_places:
            known = self.mechanism_info(round, size, round.participants[0]).known
            places = b"" if known is None else np.packbits(known.numpy()).tobytes()
        return hashlib.sha256(f"{self.describe()} {size} ".encode() + places).digest()

    def apply(
        self,
        update: torch.Tensor,
        client: int,
        round: RoundInfo,
        entropy: Seeded | System,
        *,
        of_sum: bool = False,
    ) -> SparseUpdate:
        """The update [m] as it leaves the client, or without what cancels in the sum."""
        if isinstance(entropy, Seeded):
            entropy = _of_round(entropy, round.run, round.number)
        made, shown = SparseUpdate(update), self._shown(round, client)
        for transform in self.transforms:
            if not (of_sum and transform.cancels):
                made = transform.apply(made, client=client, round=shown, entropy=entropy)
        return made

    def mechanism_info(
        self, round: RoundInfo, size: int, client: int, *, of_sum: bool = False
    ) -> MechanismInfo:
        """What everyone knows of how a client's values were made, or its part of the sum.

        All sessions of a round in this process share it: do not change its tensors.
        """
        return _mechanism_info(self, self._shown(round, client), size, of_sum)

    def _shown(self, round: RoundInfo, client: int) -> RoundInfo:
        """The round as a client's transforms see it."""
        return round.of_client(client) if self.own_places else round


@lru_cache(maxsize=2)
def _of_round(entropy: Seeded, run: str, number: int) -> Seeded:
    """The draws of a round, for which each of its clients asks."""
    return entropy.child("round", run, number)


@lru_cache(maxsize=2)
def _mechanism_info(
    protection: Protection, round: RoundInfo, size: int, of_sum: bool
) -> MechanismInfo:
    mechanism = MechanismInfo()
    for transform in protection.transforms:
        if not (of_sum and transform.cancels):
            mechanism = transform.explain(mechanism, round, size)
    return mechanism
