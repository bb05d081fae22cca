"""One step of one session of a protected round, as both sides know it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from trilemma.errors import ProtocolViolation
from trilemma.federation.nodes.terms import Kind
from trilemma.protections.round_info import RoundInfo

__all__ = ["Stage"]

_SESSION: Final = re.compile("[0-9a-f]{32}")


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
        numbers = (self.run, self.number, self.size, self.version, *self.cohort)
        texts = (self.kind, self.session, self.terms)
        if (
            not all(type(each) is int and 0 <= each < 1 << 64 for each in numbers)
            or not all(type(each) is str for each in texts)
            or self.kind not in ("train", "evaluate")
            or not _SESSION.fullmatch(self.session)
            or not self.cohort
            or any(a >= b for a, b in pairwise(self.cohort))
        ):
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
