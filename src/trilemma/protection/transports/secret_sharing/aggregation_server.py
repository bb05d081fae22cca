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
from trilemma.protection.transports import wire
from trilemma.protection.transports.base import Aggregate, ServerSession
from trilemma.protection.transports.secret_sharing.identity import SIGNATURE_BYTES
from trilemma.protection.transports.secret_sharing.key_adverts import (
    ADVERT_BYTES,
    KEY_BYTES,
    SIGNED_BYTES,
)
from trilemma.protection.transports.secret_sharing.neighbours import Circle
from trilemma.protection.transports.secret_sharing.signed_lists import write_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharingServer"]

_Outcome = tuple[str, Mapping[int, bytes] | Aggregate]  # the stage that follows, what is sent


class SharingServer(ServerSession):
    """Public keys, lists of who is left, and one running sum of masked vectors.

    Clients that sign their keys sign these lists too, and get each other's signatures: those that
    came with the updates where all survived.

    Seeds and keys that the shares give back exist inside one call, for one sum.
    """

    def __init__(self, circle: Circle, ring: Ring, label: bytes) -> None:
        self.circle, self.round, self.ring = circle, circle.round, ring
        self.digest = self.round.digest(label)
        self.stage, self.pinned = "advertise", False
        self.keys: dict[int, bytes] = {}
        self.holders: dict[int, tuple[int, ...]] = {}  # of each client's shares
        self.neighbours: dict[int, set[int]] = {}  # whom each masks with
        self.sharers: tuple[int, ...] = ()
        self.survivors: tuple[int, ...] = ()
        self.total: NDArray[Any] = np.empty(0, ring.dtype)

    def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes] | Aggregate:
        steps: dict[
            str, tuple[str, Iterable[int], Callable[[dict[int, memoryview]], _Outcome]]
        ] = {
            "advertise": ("ADV", self.round.participants, self._advertised),
            "share": ("SHR", self.keys, self._shared),
            "masked": ("MSK", self.sharers, self._summed),
            "confirm": ("SIG", self.survivors, self._confirmed),
            "unmask": ("UNM", self.survivors, self._unmasked),
        }
        if self.stage not in steps:
            raise ProtocolViolation(
                f"round {self.round.number} is over; start a new one with a new session."
            )
        kind, allowed, answer = steps[self.stage]
        self.stage = "failed"  # until this step has succeeded
        if strangers := sorted(set(replies) - set(allowed)):
            raise ProtocolViolation(
                f"client {strangers[0]} answers {kind!r}, though it had left or never took part; "
                "it is replayed or forged."
            )
        self.round.require_enough(len(replies))
        bodies = {
            client: wire.open_message(kind, self.digest, client, replies[client])
            for client in sorted(replies)
        }
        following, outcome = answer(bodies)
        self.stage = following
        return outcome

    def _advertised(self, bodies: dict[int, memoryview]) -> _Outcome:
        name = KEY_BYTES if self.circle.graph else 0
        for client, body in bodies.items():
            if len(body) not in (ADVERT_BYTES, SIGNED_BYTES + name):
                raise ProtocolViolation(
                    f"client {client} advertised {len(body)} bytes instead of two keys."
                )
        self.keys = {client: bytes(body) for client, body in bodies.items()}
        signed = [len(keys) > ADVERT_BYTES for keys in self.keys.values()]
        self.pinned = all(signed)
        if any(signed) and not self.pinned:
            raise ProtocolViolation(
                f"{sum(signed)} of {len(signed)} clients sign their keys; pin the identities of "
                "all, or of none."
            )
        check_threshold(self.round.threshold, len(self.round.participants), pinned=self.pinned)
        return "share", self._to_all("KEY", wire.pack(self.keys), self.keys)

    def _shared(self, bodies: dict[int, memoryview]) -> _Outcome:
        boxes = {client: wire.unpack(body) for client, body in bodies.items()}
        everyone, graph = set(self.keys), self.circle.graph
        for client, sealed in boxes.items():
            peers = everyone - {client}
            if set(sealed) != peers if graph is None else set(sealed) - peers:
                raise ProtocolViolation(f"client {client} did not send one share to each peer.")
            self.holders[client] = self.round.participants if graph is None else tuple(sealed)
        if self.pinned and (gone := sorted(set(self.keys) - set(boxes))):
            raise TooFewClients(
                f"client {gone[0]} advertised keys and sent no shares; where identities are "
                "pinned all must, so run a new round without it."
            )
        self.sharers = tuple(boxes)
        self._require_holders(self.sharers)
        if graph is not None:
            self.neighbours = self.circle.neighbours(self.holders)
        sent: dict[int, dict[int, bytes]] = {client: {} for client in self.keys}
        for sender, sealed in boxes.items():
            for receiver, box in sealed.items():
                sent[receiver][sender] = box
        return "masked", {
            client: wire.write_message(
                "BOX",
                self.digest,
                wire.SERVER,
                self.circle.write_boxes(self.sharers, sent[client]),
            )
            for client in self.sharers
        }

    def _summed(self, bodies: dict[int, memoryview]) -> _Outcome:
        early = SIGNATURE_BYTES if self.pinned and self.circle.graph is None else 0
        for client, body in bodies.items():
            vector = wire.read_array(body[early:], self.ring.dtype)
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
        self._require_holders(self.survivors)
        if early and self.survivors == self.sharers:  # which is what their signatures are for
            return self._confirmed({client: body[:early] for client, body in bodies.items()})
        listed = self._to_all("SUR", write_list(self.survivors), self.survivors)
        return "confirm" if self.pinned else "unmask", listed

    def _confirmed(self, bodies: dict[int, memoryview]) -> _Outcome:
        signatures = {client: bytes(body) for client, body in bodies.items()}
        return "unmask", self._to_all("ALL", wire.pack(signatures), signatures)

    def _unmasked(self, bodies: dict[int, memoryview]) -> _Outcome:
        shares = {client: wire.unpack(body) for client, body in bodies.items()}
        held = {client: set[int]() for client in self.round.participants}
        for peer in self.sharers:
            for holder in self.holders[peer]:
                held[holder].add(peer)
        for client, revealed in shares.items():
            if set(revealed) != held[client]:
                raise ProtocolViolation(f"client {client} did not reveal one share of each peer.")
        self._require_holders(shares)
        shown = self.shown if self.pinned else b""
        context = RoundContext(self.round.run, self.round.number, shown)
        add: list[Seed] = []
        subtract: list[Seed] = []
        alive, least = set(self.survivors), self.circle.threshold
        for peer in self.sharers:
            here = [shares[holder][peer] for holder in self.holders[peer] if holder in shares]
            secret = combine([Share.from_bytes(item) for item in here[:least]], least)
            if peer in alive:
                subtract.append(Seed(secret))
                continue
            lost = KeyPair(secret)
            if lost.public != self.keys[peer][:KEY_BYTES]:
                raise ProtocolViolation(f"the shares of client {peer} give another key than its.")
            peers = alive & self.neighbours[peer] if self.neighbours else alive
            keys = {client: self.keys[client][:KEY_BYTES] for client in peers}
            more, less = pairwise_seeds(lost, peer, keys, context)
            add += more
            subtract += less
        total = mask(self.total, add=add, subtract=subtract)
        summed = self.ring.decode(total, len(self.survivors))
        self.total = np.empty(0, self.ring.dtype)
        return "done", Aggregate(summed.mean, self.survivors, summed.weight)

    def _require_holders(self, left: Iterable[int]) -> None:
        """Raises where too few of those that a client drew are left."""
        here = set(left)
        for client in self.sharers:
            self.circle.require_holders(client, self.holders[client], here)

    def _to_all(self, kind: str, body: bytes, clients: Iterable[int]) -> Mapping[int, bytes]:
        message = wire.write_message(kind, self.digest, wire.SERVER, body)
        return dict.fromkeys(clients, message)
