"""A server that tells each client what it likes, and opens whatever it can from the answers.

The clients are unmodified sessions. `Liar.openings` is exact: it knows each mask that an answer
gives away, and finds every sum of updates in which no other mask is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tests.protection.transports.secret_sharing.playing import SHARING, a_round, payload

from trilemma.crypto.masking import KeyPair, RoundContext, Seed, mask
from trilemma.crypto.shamir import SHARE_BYTES, Share, combine
from trilemma.entropy import System
from trilemma.errors import TrilemmaError
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.protection.transports.secret_sharing.identity import SIGNATURE_BYTES, Identity
from trilemma.protection.transports.secret_sharing.signed_lists import Lists, read_list, write_list
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message

Sums = dict[frozenset[int], Any]
KEY_BYTES = 32


class Liar:
    """One round of `n` clients, the last of which may be helpers that tell the server all.

    With `hurried`, clients that are told that all survived are not asked to sign that again.
    """

    def __init__(
        self,
        n: int,
        threshold: int,
        *,
        pinned: bool = True,
        helpers: int = 0,
        number: int = 0,
        identities: Mapping[int, Identity] | None = None,
        sharing: SecretSharing = SHARING,
        hurried: bool = False,
    ) -> None:
        self.info, self.sharing, self.hurried = a_round(n, threshold, number), sharing, hurried
        self.circle = sharing.circle(self.info)
        self.everyone = frozenset(self.info.participants)
        self.helpers = frozenset(range(n - helpers, n))
        self.identities: Mapping[int, Identity | None] = dict.fromkeys(self.everyone)
        if pinned:
            self.identities = identities or Identity.pinned(self.everyone, System())
        self.clients: dict[int, Any] = {
            c: sharing.client(c, self.info, self.identities[c], System()) for c in self.everyone
        }
        self.digest: bytes = self.clients[0].digest
        self.refusals: dict[int, str] = {}
        self.adverts: dict[int, bytes] = {}
        self.holders: dict[int, frozenset[int]] = {}  # of each client's shares
        self.shown: dict[int, dict[int, bytes]] = {}  # the keys that each client was shown
        self.boxes: dict[int, dict[int, bytes]] = {}
        self.vectors: dict[int, Any] = {}
        self.views: dict[int, dict[int, bytes]] = {}  # the keys that each client masked with
        self.lists: dict[int, Lists] = {}  # that each client has signed last
        self.early: dict[int, bytes] = {}  # signatures that came with updates
        self.signatures: dict[int, bytes] = {}
        self.shares: dict[tuple[str, int], dict[int, Share]] = {}
        self.known: dict[bytes, KeyPair] = {}  # mask keys of the server's own
        self.messages: list[bytes] = []
        self.models: dict[int, bytes] = {}  # what each client is shown

    # What it tells, each time to each client apart

    def ask(self, client: int, message: bytes) -> None:
        """Step a client, and note its answer or the reason for its refusal."""
        session = self.clients[client]
        given = None
        if session.wants_update:
            given = replace(payload(client), shown=self.models.get(client, b""))
        try:
            reply = session.step(message, given)
        except TrilemmaError as error:
            self.refusals.setdefault(client, f"{type(error).__name__}: {error}")
            return
        self.messages += [message, reply]
        note: dict[bytes, Callable[[int, bytes, bytes], None]] = {
            b"ADV\0": self._advertised,
            b"SHR\0": self._shared,
            b"MSK\0": self._masked,
            b"SIG\0": self._signed,
            b"UNM\0": self._unmasked,
        }
        note[reply[4:8]](client, message[HEADER_BYTES:], reply[HEADER_BYTES:])

    def tell(self, kind: str, bodies: Mapping[int, bytes]) -> None:
        for client, body in bodies.items():
            self.ask(client, write_message(kind, self.digest, SERVER, body))

    def advertise(self) -> None:
        for client in sorted(self.everyone):
            self.ask(client, b"")

    def show_keys(self, to: Callable[[int], Iterable[int]]) -> None:
        self.tell(
            "KEY", {c: pack({p: self.adverts[p] for p in to(c)}) for c in sorted(self.adverts)}
        )

    def circled(self, client: int) -> frozenset[int]:
        """Those with whom a client masks: whom it drew, and who drew it."""
        drew = {peer for peer, drawn in self.holders.items() if client in drawn}
        return (self.holders[client] | drew) - {client}

    def send_boxes(self, to: Callable[[int], Iterable[int]]) -> None:
        bodies = {}
        for client in sorted(self.shown):
            told = frozenset(to(client))
            boxes = {p: box for p, box in self.boxes_for(client).items() if p in told}
            bodies[client] = self.box_body(boxes, told | {client})
        self.tell("BOX", bodies)

    def boxes_for(self, client: int) -> dict[int, bytes]:
        return {p: self.boxes[p][client] for p in self.boxes if client in self.boxes[p]}

    def box_body(self, boxes: Mapping[int, bytes], told: Iterable[int]) -> bytes:
        return self.circle.write_boxes(tuple(sorted(told)), boxes)

    def list_survivors(self, to: Callable[[int], Iterable[int]]) -> None:
        """The lists, and then all signatures that were given for them."""
        hurried = {c for c in self.lists if self.hurried and set(to(c)) == set(self.seen(c))}
        self.ask_to_sign(to, self.vectors.keys() - hurried)
        self.tell("ALL", {c: pack(self.signatures_for(c)) for c in sorted(self.lists)})

    def seen(self, client: int) -> tuple[int, ...]:
        """Those that a client takes to have shared."""
        return self.lists[client].sharers

    def ask_to_sign(
        self, to: Callable[[int], Iterable[int]], whom: Iterable[int] | None = None
    ) -> None:
        asked = sorted(self.vectors if whom is None else whom)
        self.tell("SUR", {c: write_list(tuple(sorted(to(c)))) for c in asked})

    def signatures_for(self, client: int) -> dict[int, bytes]:
        """All signatures that may be for its lists, and those that helpers add.

        Of lists in which all survive these are the early ones, whatever was signed since.
        """
        lists = self.lists[client]
        statement, full = lists.statement(), lists.survivors == lists.sharers
        helping = {c: self.identities[c] for c in self.helpers}
        forged = {c: value.sign(statement) for c, value in helping.items() if value is not None}
        return (self.signatures | self.early if full else self.signatures) | forged

    # What it hears

    def _advertised(self, client: int, told: bytes, body: bytes) -> None:
        self.adverts[client] = body

    def _shared(self, client: int, told: bytes, body: bytes) -> None:
        self.shown[client], self.boxes[client] = unpack(told), unpack(body)
        self.holders[client] = frozenset(self.boxes[client])

    def _masked(self, client: int, told: bytes, body: bytes) -> None:
        sharers, boxes = self.circle.read_boxes(client, memoryview(told))
        if self.clients[client]._early is not None:
            self.early[client], body = body[:SIGNATURE_BYTES], body[SIGNATURE_BYTES:]
            self.lists[client] = self._told(client, sharers)
        self.vectors[client] = np.frombuffer(body, self.sharing.ring.dtype)
        peers = {*boxes, *self.holders[client]} & set(sharers)
        self.views[client] = {p: self.shown[client][p][:KEY_BYTES] for p in peers}
        if client in self.helpers:
            fields = unpack(self.clients[client].export())
            self.known[self.adverts[client][:KEY_BYTES]] = KeyPair(fields[3])
            for peer, both in unpack(fields[7]).items():
                self.keep("seed", peer, client, both[:SHARE_BYTES])
                self.keep("key", peer, client, both[SHARE_BYTES:])

    def _signed(self, client: int, told: bytes, body: bytes) -> None:
        self.lists[client] = self._told(client, read_list(told))
        self.signatures[client] = body

    def _told(self, client: int, survivors: tuple[int, ...]) -> Lists:
        fields = unpack(self.clients[client].export())
        advertised, sharers = unpack(fields[11 if self.circle.graph else 6]), read_list(fields[12])
        shown = self.models.get(client, b"")
        return Lists(self.digest, shown, advertised, sharers, survivors)

    def _unmasked(self, client: int, told: bytes, body: bytes) -> None:
        alive = set(np.frombuffer(told, "<u8").tolist())
        if client in self.lists:
            alive = set(self.lists[client].survivors)
        for peer, share in unpack(body).items():
            self.keep("seed" if peer in alive else "key", peer, client, share)

    def keep(self, kind: str, peer: int, holder: int, share: bytes) -> None:
        self.shares.setdefault((kind, peer), {})[holder] = Share.from_bytes(share)

    # What it opens

    def openings(self) -> Sums:
        """The least sums of honest updates that can be computed, as weighted means [m]."""
        seeds, keys = self.secrets()
        unknown: dict[int, set[object]] = {}
        for client, view in self.views.items():
            own = self.adverts[client][:KEY_BYTES]
            model = self.models.get(client, b"")
            masks = {frozenset((own, value)) for value in view.values()}
            unknown[client] = {(item, model) for item in masks if not item & set(keys)}
            if client not in seeds:
                unknown[client].add(client)
        count = Counter(item for masks in unknown.values() for item in masks)
        sums: Sums = {}
        for group in _joined(unknown):
            alone = any(count[item] < 2 for client in group for item in unknown[client])
            if not alone and not group <= self.helpers:
                sums[group] = self._sum(group, seeds, keys)
        return sums

    def secrets(self) -> tuple[dict[int, Seed], dict[bytes, KeyPair]]:
        seeds, keys, t = {}, dict(self.known), self.circle.threshold
        for (kind, peer), held in self.shares.items():
            if len(held) >= t:
                secret = combine(list(held.values()), t)
                if kind == "seed":
                    seeds[peer] = Seed(secret)
                else:
                    pair = KeyPair(secret)
                    keys[pair.public] = pair
        return seeds, keys

    def _sum(
        self, group: frozenset[int], seeds: Mapping[int, Seed], keys: Mapping[bytes, KeyPair]
    ) -> Any:
        add: list[Seed] = []
        subtract = [seeds[client] for client in group]
        for client in group:
            shown = self.models.get(client, b"") if self.identities[client] else b""
            context = RoundContext(self.info.run, self.info.number, shown)
            own = self.adverts[client][:KEY_BYTES]
            for peer, public in self.views[client].items():
                info = context.info("mask", min(client, peer), max(client, peer))
                if public in keys:
                    stream = Seed(keys[public].derive(own, info))
                elif own in keys:
                    stream = Seed(keys[own].derive(public, info))
                else:
                    continue  # it cancels inside the group
                (subtract if client < peer else add).append(stream)
        total = np.zeros_like(self.vectors[min(group)])
        for client in group:
            total += self.vectors[client]
        unmasked = mask(total, add=add, subtract=subtract)
        return self.sharing.ring.decode(unmasked, len(group)).mean


def _joined(unknown: Mapping[int, set[object]]) -> list[frozenset[int]]:
    """Clients that share an unknown mask, directly or through others."""
    groups: list[tuple[set[int], set[object]]] = []
    for client, masks in unknown.items():
        members, union = {client}, set(masks)
        for group in [item for item in groups if item[1] & union]:
            groups.remove(group)
            members |= group[0]
            union |= group[1]
        groups.append((members, union))
    return [frozenset(members) for members, _ in groups]


def replace_client(liar: Liar, client: int, state: bytes) -> None:
    """The client restarted with a state that it had before."""
    info, identity = liar.info, liar.identities[client]
    liar.clients[client] = liar.sharing.restore(state, info, identity, System())


def true_mean(clients: Iterable[int]) -> Any:
    """The weighted mean of these clients' updates, by hand."""
    sent = [payload(client) for client in clients]
    return sum(item.weight * item.values for item in sent) / sum(item.weight for item in sent)
