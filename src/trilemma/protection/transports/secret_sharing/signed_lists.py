"""What a client was shown of a round: the lists that it signs, and holds others' signatures to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilemma.errors import ProtocolViolation
from trilemma.protection.transports.secret_sharing.identity import signed_by
from trilemma.protection.transports.wire import pack, read_array

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["Lists", "drawn", "read_list", "write_list"]


@dataclass(frozen=True)
class Lists:
    """The round's digest, that of what updates are made from, who advertised, shared, survived.

    A client signs one statement a round. Where fewer than 2t - n clients sign two, no two
    statements can get t signatures each: t + t <= n + c needs c >= 2t - n. So all who reveal
    shares reveal them for the same lists, whatever each was told. Who advertised comes with the
    keys; in a graph, where a client sees its neighbours' alone, with the keys of identities.

    In all pairs it signs one more before, with its update: the lists in which all who shared
    survive. It reveals for those, or signs others and reveals for these. That of others t were
    signed takes t - c honest clients, which leaves n - t for the first, and n - t + c < t shares
    open nothing; so for no peer both kinds of share come together. In a graph, where the shares
    that open a secret are few, they might.
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
            raise _too_few(client, len(agree), threshold)

    def require_sampled(
        self,
        client: int,
        signatures: Mapping[int, bytes],
        pins: Mapping[int, bytes],
        threshold: int,
        checks: int,
        entropy: System,
    ) -> None:
        """The same for many clients: of `threshold` signatures that are there, `checks` are true.

        They are drawn in secret once the server has sent all, so that it cannot prepare for it.
        """
        statement = self.statement()
        given = sorted(set(self.survivors) & set(signatures) - {client})
        if len(given) + 1 < threshold:
            raise _too_few(client, len(given) + 1, threshold)
        for peer in drawn(given, checks, entropy):
            if not signed_by(pins[peer], statement, signatures[peer]):
                raise _disagreement(f"client {peer} has not signed", client, "")


def _too_few(client: int, agree: int, threshold: int) -> ProtocolViolation:
    few = f", fewer than the threshold of {threshold}"
    return _disagreement(f"{agree} clients signed", client, few)


def _disagreement(found: str, client: int, few: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{found} the lists that client {client} was shown{few}; the server may have shown others "
        "different lists, or another model, so nothing is revealed."
    )


def drawn(clients: list[int], count: int, entropy: System) -> list[int]:
    """`count` of the clients in secret, each as likely as any; all where they are no more."""
    deck = list(clients)
    count = min(count, len(deck))
    for place in range(count):
        chosen = place + entropy.below(len(deck) - place)
        deck[place], deck[chosen] = deck[chosen], deck[place]
    return deck[:count]


def write_list(clients: tuple[int, ...]) -> bytes:
    """Clients' numbers as bytes.

    >>> write_list((1, 2)).hex()
    '01000000000000000200000000000000'
    """
    return np.array(clients, "<u8").tobytes()


def read_list(data: bytes | memoryview) -> tuple[int, ...]:
    """The clients that `write_list` wrote, in rising order."""
    clients = tuple(sorted(read_array(data, np.dtype("u8")).tolist()))
    if len(set(clients)) < len(clients):
        raise ProtocolViolation(
            f"the list of clients {clients!r:.80} names a client twice; it is forged."
        )
    return clients
