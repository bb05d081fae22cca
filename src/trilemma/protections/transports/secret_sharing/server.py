"""The server's side of secure aggregation: relays, adds up, removes the masks of the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trilemma.crypto.masking import (
    KeyPair,
    Ring,
    RoundContext,
    Seed,
    check_threshold,
    mask,
    pairwise_seeds,
)
from trilemma.crypto.shamir import Share, combine
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.transports.base import Aggregate, ServerSession
from trilemma.protections.transports.secret_sharing.identity import SIGNATURE_BYTES
from trilemma.protections.transports.secret_sharing.lists import write_list
from trilemma.protections.transports.wire import (
    SERVER,
    open_message,
    pack,
    read_array,
    unpack,
    write_message,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharingServer"]

_KEY_BYTES = 32


class SharingServer(ServerSession):
    """Public keys, lists of who is left, and one running sum of masked vectors.

    Clients that sign their keys sign these lists too, and get each other's signatures.

    Seeds and keys that the shares give back exist inside one call, for one sum.
    """

    def __init__(self, round: RoundInfo, ring: Ring, label: bytes) -> None:
        self.round, self.ring, self.digest = round, ring, round.digest(label)
        self.stage, self.pinned = "advertise", False
        self.keys: dict[int, bytes] = {}
        self.sharers: tuple[int, ...] = ()
        self.survivors: tuple[int, ...] = ()
        self.total: NDArray[Any] = np.empty(0, ring.dtype)

    def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes] | Aggregate:
        steps: dict[
            str,
            tuple[
                str,
                str,
                Iterable[int],
                Callable[[dict[int, memoryview]], Mapping[int, bytes] | Aggregate],
            ],
        ] = {
            "advertise": ("ADV", "share", self.round.participants, self._advertised),
            "share": ("SHR", "masked", self.keys, self._shared),
            "masked": ("MSK", "confirm" if self.pinned else "unmask", self.sharers, self._summed),
            "confirm": ("SIG", "unmask", self.survivors, self._confirmed),
            "unmask": ("UNM", "done", self.survivors, self._unmasked),
        }
        if self.stage not in steps:
            raise ProtocolViolation(
                f"round {self.round.number} is over; start a new one with a new session."
            )
        kind, following, allowed, answer = steps[self.stage]
        self.stage = "failed"  # until this step has succeeded
        if strangers := sorted(set(replies) - set(allowed)):
            raise ProtocolViolation(
                f"client {strangers[0]} answers {kind!r}, though it had left or never took part; "
                "it is replayed or forged."
            )
        self.round.require_enough(len(replies))
        bodies = {
            client: open_message(kind, self.digest, client, replies[client])
            for client in sorted(replies)
        }
        outcome = answer(bodies)
        self.stage = following
        return outcome

    def _advertised(self, bodies: dict[int, memoryview]) -> Mapping[int, bytes]:
        for client, body in bodies.items():
            if len(body) not in (2 * _KEY_BYTES, 2 * _KEY_BYTES + SIGNATURE_BYTES):
                raise ProtocolViolation(
                    f"client {client} advertised {len(body)} bytes instead of two keys."
                )
        self.keys = {client: bytes(body) for client, body in bodies.items()}
        signed = [len(keys) > 2 * _KEY_BYTES for keys in self.keys.values()]
        self.pinned = all(signed)
        if any(signed) and not self.pinned:
            raise ProtocolViolation(
                f"{sum(signed)} of {len(signed)} clients sign their keys; pin the identities of "
                "all, or of none."
            )
        check_threshold(self.round.threshold, len(self.round.participants), pinned=self.pinned)
        return self._to_all("KEY", pack(self.keys), self.keys)

    def _shared(self, bodies: dict[int, memoryview]) -> Mapping[int, bytes]:
        boxes = {client: unpack(body) for client, body in bodies.items()}
        for client, sealed in boxes.items():
            if set(sealed) != set(self.keys) - {client}:
                raise ProtocolViolation(f"client {client} did not send one share to each peer.")
        if self.pinned and (gone := sorted(set(self.keys) - set(boxes))):
            raise TooFewClients(
                f"client {gone[0]} advertised keys and sent no shares; where identities are "
                "pinned all must, so run a new round without it."
            )
        self.sharers = tuple(boxes)
        return {
            receiver: write_message(
                "BOX",
                self.digest,
                SERVER,
                pack({s: box[receiver] for s, box in boxes.items() if s != receiver}),
            )
            for receiver in self.sharers
        }

    def _summed(self, bodies: dict[int, memoryview]) -> Mapping[int, bytes]:
        for client, body in bodies.items():
            vector = read_array(body, self.ring.dtype)
            if not self.survivors:
                self.total = vector.astype(self.ring.dtype)
            elif vector.size != self.total.size:
                raise InvalidInput(
                    f"client {client} sent {vector.size - 1} coordinates, the clients before it "
                    f"{self.total.size - 1}; all must train the same model."
                )
            else:
                self.total += vector
            self.survivors += (client,)
        return self._to_all("SUR", write_list(self.survivors), self.survivors)

    def _confirmed(self, bodies: dict[int, memoryview]) -> Mapping[int, bytes]:
        signatures = {client: bytes(body) for client, body in bodies.items()}
        return self._to_all("ALL", pack(signatures), signatures)

    def _unmasked(self, bodies: dict[int, memoryview]) -> Aggregate:
        shares = {client: unpack(body) for client, body in bodies.items()}
        for client, revealed in shares.items():
            if set(revealed) != set(self.sharers):
                raise ProtocolViolation(f"client {client} did not reveal one share of each peer.")
        shown = self.shown if self.pinned else b""
        context = RoundContext(self.round.run, self.round.number, shown)
        add: list[Seed] = []
        subtract: list[Seed] = []
        for peer in self.sharers:
            pieces = [Share.from_bytes(revealed[peer]) for revealed in shares.values()]
            secret = combine(pieces, self.round.threshold)
            if peer in self.survivors:
                subtract.append(Seed(secret))
                continue
            lost = KeyPair(secret)
            if lost.public != self.keys[peer][:_KEY_BYTES]:
                raise ProtocolViolation(f"the shares of client {peer} give another key than its.")
            peers = {client: self.keys[client][:_KEY_BYTES] for client in self.survivors}
            more, less = pairwise_seeds(lost, peer, peers, context)
            add += more
            subtract += less
        total = mask(self.total, add=add, subtract=subtract)
        summed = self.ring.decode(total, len(self.survivors))
        self.total = np.empty(0, self.ring.dtype)
        return Aggregate(summed.mean, self.survivors, summed.weight)

    def _to_all(self, kind: str, body: bytes, clients: Iterable[int]) -> Mapping[int, bytes]:
        message = write_message(kind, self.digest, SERVER, body)
        return dict.fromkeys(clients, message)
