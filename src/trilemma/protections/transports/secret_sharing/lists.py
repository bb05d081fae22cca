"""What a client was shown of a round: the lists that it signs, and holds others' signatures to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trilemma.errors import ProtocolViolation
from trilemma.protections.transports.secret_sharing.identity import signed_by
from trilemma.protections.transports.wire import pack

__all__ = ["Lists", "write_list"]


@dataclass(frozen=True)
class Lists:
    """The round's digest, that of what updates are made from, who advertised, shared, survived.

    A client signs one statement a round. Where fewer than 2t - n clients sign two, no two
    statements can get t signatures each: t + t <= n + c needs c >= 2t - n. So all who reveal
    shares reveal them for the same lists, whatever each was told.
    """

    digest: bytes
    shown: bytes
    advertised: Mapping[int, bytes]
    sharers: tuple[int, ...]
    survivors: tuple[int, ...]

    def statement(self) -> bytes:
        """What a client signs."""
        keys = hashlib.sha256(pack(self.advertised)).digest()
        lists = {0: write_list(self.sharers), 1: write_list(self.survivors), 2: self.shown}
        return b"trilemma lists" + self.digest + keys + pack(lists)

    def require_agreement(
        self,
        client: int,
        signatures: Mapping[int, bytes],
        pins: Mapping[int, bytes],
        threshold: int,
    ) -> None:
        """Raises unless `threshold` survivors, `client` among them, signed these very lists."""
        statement, agree = self.statement(), {client}
        for peer in set(self.survivors) & set(signatures) - agree:
            if len(agree) == threshold:
                break  # a signature takes longer to check than all else here
            if signed_by(pins[peer], statement, signatures[peer]):
                agree.add(peer)
        if len(agree) < threshold:
            raise ProtocolViolation(
                f"{len(agree)} clients signed the lists that client {client} was shown, fewer "
                f"than the threshold of {threshold}; the server may have shown others different "
                "lists, or another model, so nothing is revealed."
            )


def write_list(clients: tuple[int, ...]) -> bytes:
    """Clients' numbers as bytes.

    >>> write_list((1, 2)).hex()
    '01000000000000000200000000000000'
    """
    return np.array(clients, "<u8").tobytes()
