"""One step of one session of a protected round, as both sides know it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trilemma.errors import ProtocolViolation
from trilemma.federation.nodes.terms import Kind
from trilemma.protections.round_info import RoundInfo

__all__ = ["Stage"]


@dataclass(frozen=True)
class Stage:
    """One step of one session: its public facts, and the bytes of each of its lanes.

    Both sides build the same `RoundInfo` from it, so that keys and messages are bound to the run,
    the round, the session and its cohort (node numbers below 2⁶⁴, rising; a client's number in
    the protocol is its seat among them). `version` > 0 marks an encrypted sum that readers apply
    to their model, and counts those sums.
    """

    run: int
    kind: Kind
    session: str
    number: int
    cohort: tuple[int, ...]
    size: int
    terms: str = ""
    version: int = 0
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ("train", "evaluate") or len(self.session) != 32 or not self.cohort:
            raise ProtocolViolation("a stage's header is not one of this protocol; it is altered.")

    def round(self, lane: str, threshold: int) -> RoundInfo:
        """The round that this lane's messages are bound to."""
        who = hashlib.sha256(np.array(self.cohort, "<u8").tobytes()).hexdigest()
        run = f"run {self.run} {self.kind} {lane} {self.session} {who}"
        seed = hashlib.sha256(f"mask seed {run} {self.number}".encode()).digest()
        mask_seed = int.from_bytes(seed[:8], "big") >> 1
        return RoundInfo(run, self.number, tuple(range(len(self.cohort))), threshold, mask_seed)

    def seat(self, node: int) -> int:
        """A node's number in the protocol."""
        if node not in self.cohort:
            raise ProtocolViolation(
                f"node {node} takes no part in round {self.number}; the message is for another."
            )
        return self.cohort.index(node)
