"""One step of one session of a protected round, as both sides know it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from trilemma.deployment.nodes.terms import Kind
from trilemma.errors import ProtocolViolation
from trilemma.protection.round_info import RoundInfo

__all__ = ["Stage"]

_SESSION: Final = re.compile("[0-9a-f]{32}")
_LANES: Final = ("update", "metrics")


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
        allowed = {
            "run": _is_number(self.run),
            "kind": self.kind in ("train", "evaluate"),
            "session": type(self.session) is str and _SESSION.fullmatch(self.session),
            "number": _is_number(self.number),
            "cohort": _is_rising(self.cohort),
            "size": _is_number(self.size),
            "terms": type(self.terms) is str,
            "version": _is_number(self.version),
            "blobs": set(self.blobs) <= set(_LANES),
        }
        for name, good in allowed.items():
            if not good:
                raise ProtocolViolation(
                    f"{name} of a stage is {getattr(self, name)!r:.80}, which this protocol does "
                    "not have; the message is altered, or of another version."
                )

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


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_rising(cohort: tuple[int, ...]) -> bool:
    return (
        bool(cohort)
        and all(_is_number(client) for client in cohort)
        and all(a < b for a, b in pairwise(cohort))
    )
