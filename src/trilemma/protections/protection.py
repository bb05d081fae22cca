"""What a federation runs: transforms that change each update, and the transport that carries it.

`Protection.client` and `.server` make the sessions that an adapter drives; `run_round` drives them
in one process; `observe` says what an adversary can read of a round.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.observations import Adversary, Observation
from trilemma.protections import observing, rounds
from trilemma.protections.protocol import (
    Aggregate,
    Knowledge,
    Masked,
    RoundInfo,
    Transform,
    Transport,
)
from trilemma.protections.sessions import ProtectedClient, ProtectedServer
from trilemma.protections.transcripts import Released, RoundResult, Transcript
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transports.plain import Plain

__all__ = ["Protection"]

_LEAST_NOISE: Final = 2.0  # steps of the transport's grid; see `Protection._refusal`


@dataclass(frozen=True)
class Protection:
    """Transforms in the order in which a client applies them, then a transport; `()` is none.

    >>> from trilemma.protections.transforms.randomization import Randomization
    >>> Protection((Randomization(0.01, clip=1.0), Compression(0.5))).describe()
    'randomization:variance=0.01,clip=1.0+compression:keep=0.5'
    >>> Protection().describe()
    'none'
    """

    transforms: tuple[Transform, ...] = ()
    transport: Transport = Plain()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        object.__setattr__(self, "transforms", tuple(self.transforms))
        if sentence := self._refusal():
            raise InvalidInput(sentence)

    def _refusal(self) -> str | None:
        """Why the parts contradict each other, in one sentence."""
        hides = self.transport.server_reads != "messages"
        noisy = [each for each in self.transforms if each.adds_noise]
        thinning = [each for each in self.transforms if each.thins]
        for several, what in ((noisy, "noise"), (thinning, "compression")):
            if len(several) > 1:
                return (
                    f"{several[0].name} and {several[1].name} both are {what}; use one of them, "
                    "as an attacker is told of one."
                )
        for each in self.transforms:
            if each.selects_by_value and (hides or any(other.cancels for other in noisy)):
                return (
                    f"{each.name} chooses coordinates by their value and so shows which are "
                    "large, where single updates are to be hidden; use compression:keep=... ."
                )
            if each.cancels and hides:
                return (
                    f"{self.transport.name} hides single updates already, so bounded masks add "
                    "nothing; leave them out."
                )
        if (
            noisy
            and thinning
            and self.transforms.index(thinning[0]) < self.transforms.index(noisy[0])
        ):
            first = thinning[0]
            if noisy[0].clip is not None:
                return (
                    "a clip must bound the whole update; put the transform that clips before "
                    f"{first.name}."
                )
            if isinstance(first, Compression) and first.unbiased and first.sizes:
                return (
                    "noise after a compression with several keep probabilities has another scale "
                    "on each coordinate; put the noise before the compression."
                )
        step = self.transport.step_size()
        for each in noisy:
            scale = getattr(each, "scale", math.inf)
            if scale < _LEAST_NOISE * step:
                # From here on a sum of rounded noises is a rounded sum of noises: on each
                # coordinate they differ by less than exp(-2π²·4), about 1e-34.
                return (
                    f"noise of standard deviation {scale:g} is lost on the transport's grid of "
                    f"{step:g}, which needs twice its step; raise precision_bits, or the variance."
                )
        return None

    def describe(self) -> str:
        """The protection as text that `parse_protection` reads."""
        parts = [each.describe() for each in self.transforms]
        if not isinstance(self.transport, Plain):
            parts.append(self.transport.describe())
        return "+".join(parts) or "none"

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that belong beside every result under this protection."""
        sentences = [each.caveat for each in self.transforms] + [self.transport.caveat]
        return tuple(each for each in sentences if each)

    @property
    def own_places(self) -> bool:
        """Whether each client sends coordinates of its own: where nothing has to align in a sum.

        Only a server that reads single messages can add them up place by place, and masks cancel
        only where all clients send theirs.
        """
        reads_messages = self.transport.server_reads == "messages"
        thins = any(each.thins for each in self.transforms)
        return reads_messages and thins and not any(each.cancels for each in self.transforms)

    # Sessions

    def client(
        self,
        client: int,
        round: RoundInfo,
        size: int,
        *,
        secret: Any = None,
        entropy: Seeded | System | None = None,
    ) -> ProtectedClient:
        """A client's session for updates of `size` coordinates.

        `entropy` feeds the transforms' noise: `System()` by default, `Seeded` to measure. Keys
        and masks of the transport come from the system whatever it is.
        """
        session = self.transport.client(client, round, secret, System(), self.label(round, size))
        return ProtectedClient(self, round, size, client, session, entropy or System())

    def restore(
        self,
        state: bytes,
        client: int,
        round: RoundInfo,
        size: int,
        *,
        secret: Any = None,
        entropy: Seeded | System | None = None,
    ) -> ProtectedClient:
        """The session that `ProtectedClient.export` wrote, in another process."""
        label = self.label(round, size)
        session = self.transport.restore(state, round, secret, System(), label)
        return ProtectedClient(self, round, size, client, session, entropy or System())

    def server(self, round: RoundInfo, size: int, *, public: Any = None) -> ProtectedServer:
        """The server's session; `public` is the clients' public key where there is one."""
        session = self.transport.server(round, public, self.label(round, size))
        return ProtectedServer(self, round, size, session)

    def label(self, round: RoundInfo, size: int) -> bytes:
        """Protection, size and common places: clients that differ in these cannot be summed."""
        places = b""
        if not self.own_places:
            known = self.knowledge(round, size, round.participants[0]).known
            places = b"" if known is None else np.packbits(known.numpy()).tobytes()
        return hashlib.sha256(f"{self.describe()} {size} ".encode() + places).digest()

    # What a client sends, and what everyone knows of it

    def apply(
        self,
        update: torch.Tensor,
        client: int,
        round: RoundInfo,
        entropy: Seeded | System,
        *,
        of_sum: bool = False,
    ) -> Masked:
        """The update [m] as it leaves the client, or without what cancels in the sum."""
        if isinstance(entropy, Seeded):
            entropy = entropy.child("round", round.run, round.number)
        made, shown = Masked(update), self._shown(round, client)
        for each in self.transforms:
            if not (of_sum and each.cancels):
                made = each.apply(made, client=client, round=shown, entropy=entropy)
        return made

    def knowledge(
        self, round: RoundInfo, size: int, client: int, *, of_sum: bool = False
    ) -> Knowledge:
        """What everyone knows of how a client's values were made, or its part of the sum.

        All sessions of a round in this process share it: do not change its tensors.
        """
        return _knowledge(self, self._shown(round, client), size, of_sum)

    def _shown(self, round: RoundInfo, client: int) -> RoundInfo:
        """The round as a client's transforms see it."""
        return round.of_client(client) if self.own_places else round

    def expand(self, aggregate: Aggregate, round: RoundInfo, size: int) -> Released:
        """The mean of the sent values, put back into its places [m], which all clients share."""
        mean = torch.from_numpy(np.ascontiguousarray(aggregate.mean, dtype=np.float64))
        known = self.knowledge(round, size, aggregate.clients[0]).known
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
        return Released(mean, aggregate.clients, aggregate.weight, known)

    # A round, and what an adversary reads of it

    def run_round(
        self,
        updates: Sequence[torch.Tensor] | torch.Tensor,
        weights: Sequence[int] | None,
        round: RoundInfo,
        *,
        entropy: Seeded | System | None = None,
        secret: Any = None,
        drops: Mapping[int, int] | None = None,
        curious: int | None = None,
    ) -> RoundResult:
        """All sessions of one round in this process.

        `updates` and `weights` are in the order of `round.participants`. `drops` says at which
        step (counted from 0) a client falls silent; `curious` is the client whose own update the
        transcript keeps (the first by default).
        """
        rows, counts = self._checked(updates, weights, round)
        return rounds.run_round(
            self,
            rows,
            counts,
            round,
            entropy=entropy or System(),
            secret=secret,
            drops=drops or {},
            curious=self._curious(curious, round),
        )

    def observe(self, transcript: Transcript, adversary: Adversary) -> list[Observation]:
        """Everything of a round that the server, or its curious client, can read of updates.

        The server reads each message, or the sum, or nothing, as the transport says; where masks
        cancel it reads the messages and the sum. A client reads the mean, less its own part.
        """
        return observing.observe(self, transcript, adversary)

    def observe_updates(
        self,
        updates: torch.Tensor,
        weights: Sequence[int] | None,
        adversary: Adversary,
        *,
        entropy: Seeded,
        round: RoundInfo,
        curious: int | None = None,
    ) -> list[Observation]:
        """What `observe` gives for a run of these updates [K, m], without running any protocol.

        The same draws of `entropy` as in `run_round`, and no fixed-point rounding. One client
        alone (K = 1) shows the server its message; it has no sum to hide in.
        """
        rows, counts = self._checked(updates, weights, round)
        return observing.observe_updates(
            self, rows, counts, adversary, entropy, round, self._curious(curious, round)
        )

    def _curious(self, curious: int | None, round: RoundInfo) -> int:
        client = round.participants[0] if curious is None else curious
        round.require_participant(client)
        return client

    def _checked(
        self,
        updates: Sequence[torch.Tensor] | torch.Tensor,
        weights: Sequence[int] | None,
        round: RoundInfo,
    ) -> tuple[list[torch.Tensor], list[int]]:
        rows = list(updates)
        counts = [1] * len(rows) if weights is None else list(weights)
        if not len(rows) == len(counts) == len(round.participants):
            raise InvalidInput(
                f"round {round.number} has {len(round.participants)} participants, got "
                f"{len(rows)} updates and {len(counts)} weights; give one of each a client."
            )
        shapes = sorted({tuple(row.shape) for row in rows})
        if len(shapes) > 1 or len(shapes[0]) != 1:
            raise InvalidInput(
                f"updates must be flat vectors of one length, got shapes {shapes}; all clients "
                "must train the same model."
            )
        if any(each.cancels for each in self.transforms) and len(set(counts)) > 1:
            raise InvalidInput(
                "bounded masks cancel in an unweighted sum only; give all clients one weight."
            )
        return rows, counts


@lru_cache(maxsize=2)
def _knowledge(protection: Protection, round: RoundInfo, size: int, of_sum: bool) -> Knowledge:
    knowledge = Knowledge()
    for each in protection.transforms:
        if not (of_sum and each.cancels):
            knowledge = each.reveal(knowledge, round, size)
    return knowledge
