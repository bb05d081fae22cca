"""A client's side of secure aggregation: advertise, share, masked, unmask.

A client with pinned peers signs the lists that it was shown, and unmasks only against enough
others' signatures on the same ones. With its update it signs that all survive; where some do not,
and in a graph, it signs who does in a step before the last (confirm).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.crypto.masking import KeyPair, Ring, RoundContext, Seed, pairwise_seeds, seal, unseal
from trilemma.crypto.masking import mask as add_masks
from trilemma.crypto.sealed import require_system
from trilemma.crypto.shamir import SHARE_BYTES, split
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients
from trilemma.protection.transports import wire
from trilemma.protection.transports.base import ClientSession, Payload, require_payload
from trilemma.protection.transports.fixed_point import check_range
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.key_adverts import (
    KEY_BYTES,
    advertise,
    authentic,
    check_adverts,
    message_key,
    named,
)
from trilemma.protection.transports.secret_sharing.neighbours import Circle
from trilemma.protection.transports.secret_sharing.signed_lists import Lists, read_list, write_list

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["SharingClient"]

_STAGES: Final = ("advertise", "share", "masked", "confirm", "unmask", "done", "failed")


class SharingClient(ClientSession):
    """Keys, seed and shares of one client in one round; forgotten with the session.

    The session moves on before it replies, and a step that fails ends it: whatever a server asks
    next, no step is answered twice, and for a peer either the share of its self-mask or the share
    of its pair key is revealed, never both.
    """

    __slots__ = (
        "_entropy",
        "_everyone",
        "_holders",
        "_identity",
        "_mask_key",
        "_message_key",
        "_peers",
        "_seed",
        "_sharers",
        "_shares",
        "_shown",
        "_survivors",
        "circle",
        "client",
        "context",
        "digest",
        "ring",
        "round",
        "stage",
    )

    def __init__(
        self,
        client: int,
        circle: Circle,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
        keys: tuple[KeyPair, KeyPair, Seed],
    ) -> None:
        self.client, self.circle, self.round, self.ring = client, circle, circle.round, ring
        self.context: Final = RoundContext(self.round.run, self.round.number)
        self.digest: Final = self.round.digest(label)
        self.stage = "advertise"
        self._entropy: Final = require_system(entropy)
        self._identity: Final = identity
        self._mask_key, self._message_key, self._seed = keys
        self._everyone: dict[int, bytes] = {}  # U1; in a graph what each of them advertised
        self._holders: tuple[int, ...] = ()  # of this client's shares, by seat
        self._peers: dict[int, bytes] = {}  # neighbours: mask key, message key and pinned key
        self._sharers: tuple[int, ...] = ()  # U2
        self._shares: dict[int, bytes] = {}  # held: share of the seed, then of the mask key
        self._survivors: tuple[int, ...] = ()  # U3
        self._shown = b""  # what the update was made from

    @classmethod
    def start(
        cls,
        client: int,
        circle: Circle,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
    ) -> SharingClient:
        """A session with fresh keys."""
        keys = KeyPair.generate(entropy), KeyPair.generate(entropy), Seed.generate(entropy)
        return cls(client, circle, ring, entropy, label, identity, keys)

    @property
    def wants_update(self) -> bool:
        return self.stage == "masked"

    @property
    def promised(self) -> Mapping[int, str]:
        if not self._survivors:
            return {}
        return {peer: "seed" if peer in self._survivors else "key" for peer in self._shares}

    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes:
        last = "unmask" if self._identity is None else "confirm"
        steps: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
            "advertise": ("share", self._advertise),
            "share": ("masked", self._share),
            "masked": (last, lambda message: self._masked(message, require_payload(payload))),
            "unmask": ("done", self._unmask),
        }
        if self._early is not None and wire.is_kind("ALL", inbox):
            steps["confirm"] = "done", self._unmask  # all survive, and have signed that
        elif (identity := self._identity) is not None:
            steps["confirm"] = "unmask", lambda message: self._confirm(message, identity)
        if self.stage not in steps:
            raise ProtocolViolation(
                f"client {self.client} has {'answered' if self.stage == 'done' else 'left'} round "
                f"{self.round.number} and answers no more; start a new round."
            )
        following, answer = steps[self.stage]
        self.stage = "failed"  # until this step has succeeded
        reply = answer(inbox)
        self.stage = following
        return reply

    @property
    def _early(self) -> Identity | None:
        """What signs lists with an update: in all pairs alone, as `Lists` says."""
        return self._identity if self.circle.graph is None else None

    def _advertise(self, inbox: bytes) -> bytes:
        name = self.circle.graph is not None
        keys = advertise(self._own_keys(), self.client, self.digest, self._identity, name=name)
        return wire.write_message("ADV", self.digest, self.client, keys)

    def _own_keys(self) -> bytes:
        return self._mask_key.public + self._message_key.public

    def _share(self, inbox: bytes) -> bytes:
        shown = wire.unpack(wire.open_message("KEY", self.digest, wire.SERVER, inbox))
        self._holders = self.circle.draw(self.client, self._entropy)  # not before who is who
        self._check_list(shown, self.round.participants)
        graph = self.circle.graph is not None
        check_adverts(shown, self.client, self._own_keys(), self._identity, name=graph)
        self._everyone = shown if graph else dict.fromkeys(shown, b"")
        peers = self._authentic(shown, set(shown).intersection(self._holders))
        count, threshold = len(self._holders), self.circle.threshold
        seed = split(self._seed.reveal(), threshold, count, self._entropy)
        key = split(self._mask_key.reveal(), threshold, count, self._entropy)
        context, sealed = self._sealing(), {}
        for seat, peer in enumerate(self._holders):
            if peer not in peers:
                continue
            both = seed[seat].reveal() + key[seat].reveal()
            if peer == self.client:
                self._shares[peer] = both
                continue
            sealed[peer] = seal(
                self._message_key,
                message_key(peers[peer]),
                both,
                context=context,
                sender=self.client,
                receiver=peer,
                entropy=self._entropy,
            )
        self._peers = peers
        return wire.write_message("SHR", self.digest, self.client, wire.pack(sealed))

    def _authentic(self, shown: Mapping[int, bytes], chosen: Collection[int]) -> dict[int, bytes]:
        return authentic(shown, sorted(chosen), self.client, self.digest, self._identity)

    def _sealing(self) -> RoundContext:
        """What boxes are bound to: in a graph, where few sign, to what all advertised, too."""
        if self.circle.graph is None:
            return self.context
        return replace(self.context, shown=hashlib.sha256(wire.pack(self._everyone)).digest())

    def _masked(self, inbox: bytes, payload: Payload) -> bytes:
        body = wire.open_message("BOX", self.digest, wire.SERVER, inbox)
        self._sharers, boxes = self.circle.read_boxes(self.client, body)
        self._check_list(self._sharers, self._everyone)
        if self._identity is not None and len(self._sharers) < len(self._everyone):
            raise ProtocolViolation(
                f"the server tells client {self.client} of the shares of {len(self._sharers) - 1} "
                f"peers, and {len(self._everyone) - 1} advertised keys; where identities are "
                "pinned all of them must share, so leave."
            )
        if strangers := set(boxes) - (set(self._sharers) - {self.client}):
            raise ProtocolViolation(f"client {min(strangers)} shares, and is not listed; leave.")
        self._peers |= self._authentic(self._everyone, set(boxes) - set(self._peers))
        peers = set(self._peers) & set(self._sharers) - {self.client}
        context = self._sealing()
        for peer, box in boxes.items():
            shares = unseal(
                self._message_key,
                message_key(self._peers[peer]),
                box,
                context=context,
                sender=peer,
                receiver=self.client,
            )
            self.circle.check_seat(self.client, peer, shares)
            self._shares[peer] = shares
        keys = {peer: self._peers[peer][:KEY_BYTES] for peer in peers}
        self._shown = b"" if self._identity is None else payload.shown
        context = replace(self.context, shown=self._shown)
        add, subtract = pairwise_seeds(self._mask_key, self.client, keys, context)
        check_range(payload.values, self.ring.fixed, self.client)
        values = self.ring.encode(payload.values, payload.weight)
        masked = wire.array_bytes(add_masks(values, add=[*add, self._seed], subtract=subtract))
        lists = replace(self._lists(), survivors=self._sharers)
        signed = b"" if self._early is None else self._early.sign(lists.statement())
        return wire.write_message("MSK", self.digest, self.client, signed, masked)

    def _read_survivors(self, inbox: bytes) -> tuple[int, ...]:
        return self._checked(read_list(wire.open_message("SUR", self.digest, wire.SERVER, inbox)))

    def _checked(self, survivors: tuple[int, ...]) -> tuple[int, ...]:
        self._check_list(survivors, self._sharers)
        if len(survivors) < self.least:
            raise TooFewClients(
                f"the sum of {len(survivors)} clients would be released, and client "
                f"{self.client} is summed with {self.least} at least; nothing is revealed."
            )
        return survivors

    def _lists(self) -> Lists:
        advertised = self._peers if self.circle.graph is None else self._everyone
        return Lists(self.digest, self._shown, advertised, self._sharers, self._survivors)

    def _confirm(self, inbox: bytes, identity: Identity) -> bytes:
        self._survivors = self._read_survivors(inbox)
        signature = identity.sign(self._lists().statement())
        return wire.write_message("SIG", self.digest, self.client, signature)

    def _unmask(self, inbox: bytes) -> bytes:
        if self._identity is None:
            self._survivors = self._read_survivors(inbox)
        else:
            signatures = wire.unpack(wire.open_message("ALL", self.digest, wire.SERVER, inbox))
            self._survivors = self._survivors or self._checked(self._sharers)
            self._require_agreement(signatures)
        kinds = self.promised
        reply = {
            peer: shares[:SHARE_BYTES] if kinds[peer] == "seed" else shares[SHARE_BYTES:]
            for peer, shares in self._shares.items()
        }
        self._shares = dict.fromkeys(self._shares, b"")  # nothing to ask for again is left
        return wire.write_message("UNM", self.digest, self.client, wire.pack(reply))

    def _require_agreement(self, signatures: Mapping[int, bytes]) -> None:
        lists, least = self._lists(), self.round.threshold
        if (graph := self.circle.graph) is not None:
            pins = named(self._everyone)
            lists.require_sampled(
                self.client, signatures, pins, least, graph.checks, self._entropy
            )
        else:
            pins = {peer: keys[2 * KEY_BYTES :] for peer, keys in self._peers.items()}
            lists.require_agreement(self.client, signatures, pins, least)

    def _check_list(self, listed: Collection[int], allowed: Collection[int]) -> None:
        """Raises unless the server's list holds this client, known clients only, and enough."""
        if self.client not in listed:
            raise ProtocolViolation(
                f"the server's list in round {self.round.number} leaves out client {self.client}, "
                "which answered; it is forged, so nothing is revealed."
            )
        if strangers := set(listed) - set(allowed):
            raise ProtocolViolation(
                f"the server's list in round {self.round.number} holds client {min(strangers)}, "
                "which was not there before; it is forged, so nothing is revealed."
            )
        self.round.require_enough(len(listed))
        self.circle.require_holders(self.client, self._holders, set(listed))

    def export(self) -> bytes:
        fields = (
            self.client.to_bytes(8, "little"),
            bytes([_STAGES.index(self.stage)]),
            self.digest,
            self._mask_key.reveal(),
            self._message_key.reveal(),
            self._seed.reveal(),
            wire.pack(self._peers),
            wire.pack(self._shares),
            write_list(self._survivors),
            self._shown,
            write_list(self._holders),
            wire.pack(self._everyone),
            write_list(self._sharers),
        )
        return wire.pack(dict(enumerate(fields)))

    @classmethod
    def restore(
        cls,
        state: bytes,
        circle: Circle,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
    ) -> SharingClient:
        """The session that `export` wrote; refused in another round."""
        fields = wire.unpack(state)
        if len(fields) != 13:
            raise InvalidInput(
                f"the stored state has {len(fields)} parts, and is not one of a secure "
                f"aggregation client; start a new session."
            )
        keys = KeyPair(fields[3]), KeyPair(fields[4]), Seed(fields[5])
        client = int.from_bytes(fields[0], "little")
        session = cls(client, circle, ring, entropy, label, identity, keys)
        if fields[2] != session.digest:
            raise ProtocolViolation(
                "the stored state belongs to another round or protection; its masks must not be "
                "used twice, so start a new session."
            )
        session._peers, session._shares = wire.unpack(fields[6]), wire.unpack(fields[7])
        session._survivors, session._shown = read_list(fields[8]), fields[9]
        session._holders, session._everyone = read_list(fields[10]), wire.unpack(fields[11])
        session._sharers = read_list(fields[12])
        if identity is None and any(len(peer) > 2 * KEY_BYTES for peer in session._peers.values()):
            raise ProtocolViolation(
                "the stored state belongs to a session with pinned identities; name them again."
            )
        session.stage = _STAGES[fields[1][0]]
        return session
