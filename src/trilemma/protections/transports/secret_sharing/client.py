"""A client's side of secure aggregation: advertise, share, masked, unmask.

Between the last two, a client with pinned peers signs the lists that it was shown (confirm), and
unmasks only against the signatures of enough others on the same lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.crypto.masking import KeyPair, Ring, RoundContext, Seed, pairwise_seeds, seal, unseal
from trilemma.crypto.masking import mask as add_masks
from trilemma.crypto.sealed import require_system
from trilemma.crypto.shamir import SHARE_BYTES, Share, split
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.transports.base import ClientSession, Payload, require_payload
from trilemma.protections.transports.fixed_point import check_range
from trilemma.protections.transports.secret_sharing.identity import Identity
from trilemma.protections.transports.secret_sharing.lists import Lists, write_list
from trilemma.protections.transports.wire import (
    SERVER,
    array_bytes,
    open_message,
    pack,
    read_array,
    unpack,
    write_message,
)

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["SharingClient"]

KEY_BYTES: Final = 32
_STAGES: Final = ("advertise", "share", "masked", "confirm", "unmask", "done", "failed")


class SharingClient(ClientSession):
    """Keys, seed and shares of one client in one round; forgotten with the session.

    The session moves on before it replies, and a step that fails ends it: whatever a server asks
    next, no step is answered twice, and for a peer either the share of its self-mask or the share
    of its pair key is revealed, never both.
    """

    __slots__ = (
        "_entropy",
        "_identity",
        "_mask_key",
        "_message_key",
        "_peers",
        "_seed",
        "_shares",
        "_shown",
        "_survivors",
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
        round: RoundInfo,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
        keys: tuple[KeyPair, KeyPair, Seed],
    ) -> None:
        self.client, self.round, self.ring = client, round, ring
        self.context: Final = RoundContext(round.run, round.number)
        self.digest: Final = round.digest(label)
        self.stage = "advertise"
        self._entropy: Final = require_system(entropy)
        self._identity: Final = identity
        self._mask_key, self._message_key, self._seed = keys
        self._peers: dict[int, bytes] = {}  # U1: mask key, message key and pinned key of each
        self._shares: dict[int, bytes] = {}  # U2: share of the seed, then of the mask key
        self._survivors: tuple[int, ...] = ()  # U3
        self._shown = b""  # what the update was made from

    @classmethod
    def start(
        cls,
        client: int,
        round: RoundInfo,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
    ) -> SharingClient:
        """A session with fresh keys."""
        keys = KeyPair.generate(entropy), KeyPair.generate(entropy), Seed.generate(entropy)
        return cls(client, round, ring, entropy, label, identity, keys)

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
        if (identity := self._identity) is not None:
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

    def _advertise(self, inbox: bytes) -> bytes:
        keys = self._mask_key.public + self._message_key.public
        if self._identity is not None:
            keys += self._identity.sign(self._statement(self.client, keys))
        return write_message("ADV", self.digest, self.client, keys)

    def _statement(self, client: int, keys: bytes) -> bytes:
        """What a client signs: its keys, bound to this round and to itself."""
        return b"trilemma keys" + self.digest + client.to_bytes(8, "big") + keys

    def _authentic(self, shown: dict[int, bytes]) -> dict[int, bytes]:
        """The keys of each client and, where peers are pinned, the key that signed them."""
        own = self._mask_key.public + self._message_key.public
        keys = {peer: each[: 2 * KEY_BYTES] for peer, each in shown.items()}
        if keys[self.client] != own:
            raise ProtocolViolation(
                f"the server shows another key for client {self.client} than it advertised; it "
                "would read what is sent to it, so leave."
            )
        if self._identity is None:
            return keys
        for peer, each in keys.items():
            pin = self._identity.public
            if peer != self.client:
                statement = self._statement(peer, each)
                pin = self._identity.check(peer, statement, shown[peer][2 * KEY_BYTES :])
            keys[peer] = each + pin
        return keys

    def _share(self, inbox: bytes) -> bytes:
        shown = unpack(open_message("KEY", self.digest, SERVER, inbox))
        self._check_list(shown, self.round.participants)
        if any(len(each) < 2 * KEY_BYTES for each in shown.values()):
            raise ProtocolViolation("a client's advertised keys do not have 64 bytes; leave.")
        peers = self._authentic(shown)
        if len({keys[:KEY_BYTES] for keys in peers.values()}) < len(peers):
            raise ProtocolViolation("two clients advertise the same key; one is forged, so leave.")
        count, threshold = len(self.round.participants), self.round.threshold
        seed = split(self._seed.reveal(), threshold, count, self._entropy)
        key = split(self._mask_key.reveal(), threshold, count, self._entropy)
        sealed = {}
        for seat, peer in enumerate(self.round.participants):
            if peer not in peers:
                continue
            both = seed[seat].reveal() + key[seat].reveal()
            if peer == self.client:
                self._shares[peer] = both
                continue
            sealed[peer] = seal(
                self._message_key,
                _message_key(peers[peer]),
                both,
                context=self.context,
                sender=self.client,
                receiver=peer,
                entropy=self._entropy,
            )
        self._peers = peers
        return write_message("SHR", self.digest, self.client, pack(sealed))

    def _masked(self, inbox: bytes, payload: Payload) -> bytes:
        boxes = unpack(open_message("BOX", self.digest, SERVER, inbox))
        if self.client in boxes:
            raise ProtocolViolation(f"the server sent client {self.client} a share of its own.")
        self._check_list({**boxes, self.client: b""}, tuple(self._peers))
        if self._identity is not None and len(boxes) + 1 < len(self._peers):
            raise ProtocolViolation(
                f"the server hands client {self.client} the shares of {len(boxes)} peers, and "
                f"{len(self._peers) - 1} advertised keys; where identities are pinned all of them "
                "must share, so leave."
            )
        seat = self.round.participants.index(self.client) + 1
        for peer, box in boxes.items():
            shares = unseal(
                self._message_key,
                _message_key(self._peers[peer]),
                box,
                context=self.context,
                sender=peer,
                receiver=self.client,
            )
            halves = shares[:SHARE_BYTES], shares[SHARE_BYTES:]
            if any(Share.from_bytes(half).index != seat for half in halves):
                raise ProtocolViolation(f"client {peer} sent a share for another client; leave.")
            self._shares[peer] = shares
        keys = {peer: self._peers[peer][:KEY_BYTES] for peer in boxes}
        context = self.context
        if self._identity is not None:
            self._shown = payload.shown
            context = replace(context, shown=self._shown)
        add, subtract = pairwise_seeds(self._mask_key, self.client, keys, context)
        check_range(payload.values, self.ring.fixed, self.client)
        values = self.ring.encode(payload.values, payload.weight)
        masked = add_masks(values, add=[*add, self._seed], subtract=subtract)
        return write_message("MSK", self.digest, self.client, array_bytes(masked))

    def _read_survivors(self, inbox: bytes) -> tuple[int, ...]:
        listed = read_array(open_message("SUR", self.digest, SERVER, inbox), np.dtype("u8"))
        survivors = tuple(sorted(int(each) for each in listed))
        if len(set(survivors)) < len(survivors):
            raise ProtocolViolation(
                f"the list of survivors {survivors!r:.80} names a client twice; it is forged."
            )
        self._check_list(dict.fromkeys(survivors, b""), tuple(self._shares))
        if len(survivors) < self.least:
            raise TooFewClients(
                f"the sum of {len(survivors)} clients would be released, and client "
                f"{self.client} is summed with {self.least} at least; nothing is revealed."
            )
        return survivors

    def _lists(self) -> Lists:
        sharers = tuple(sorted(self._shares))
        return Lists(self.digest, self._shown, self._peers, sharers, self._survivors)

    def _confirm(self, inbox: bytes, identity: Identity) -> bytes:
        self._survivors = self._read_survivors(inbox)
        signature = identity.sign(self._lists().statement())
        return write_message("SIG", self.digest, self.client, signature)

    def _unmask(self, inbox: bytes) -> bytes:
        if self._identity is None:
            self._survivors = self._read_survivors(inbox)
        else:
            signatures = unpack(open_message("ALL", self.digest, SERVER, inbox))
            pins = {peer: keys[2 * KEY_BYTES :] for peer, keys in self._peers.items()}
            self._lists().require_agreement(self.client, signatures, pins, self.round.threshold)
        kinds = self.promised
        reply = {
            peer: shares[:SHARE_BYTES] if kinds[peer] == "seed" else shares[SHARE_BYTES:]
            for peer, shares in self._shares.items()
        }
        self._shares = {}  # nothing is left that a second request could ask for
        return write_message("UNM", self.digest, self.client, pack(reply))

    def _check_list(self, listed: dict[int, bytes], allowed: tuple[int, ...]) -> None:
        """Raises unless the server's list holds this client, known clients only, and enough."""
        if self.client not in listed:
            raise ProtocolViolation(
                f"the server's list in round {self.round.number} leaves out client {self.client}, "
                "which answered; it is forged, so nothing is revealed."
            )
        if strangers := sorted(set(listed) - set(allowed)):
            raise ProtocolViolation(
                f"the server's list in round {self.round.number} holds client {strangers[0]}, "
                "which was not there before; it is forged, so nothing is revealed."
            )
        self.round.require_enough(len(listed))

    def export(self) -> bytes:
        fields = (
            self.client.to_bytes(8, "little"),
            bytes([_STAGES.index(self.stage)]),
            self.digest,
            self._mask_key.reveal(),
            self._message_key.reveal(),
            self._seed.reveal(),
            pack(self._peers),
            pack(self._shares),
            write_list(self._survivors),
            self._shown,
        )
        return pack(dict(enumerate(fields)))

    @classmethod
    def restore(
        cls,
        state: bytes,
        round: RoundInfo,
        ring: Ring,
        entropy: System,
        label: bytes,
        identity: Identity | None,
    ) -> SharingClient:
        """The session that `export` wrote; refused in another round."""
        fields = unpack(state)
        if len(fields) != 10:
            raise InvalidInput(
                f"the stored state has {len(fields)} parts, and is not one of a secure "
                f"aggregation client; start a new session."
            )
        keys = KeyPair(fields[3]), KeyPair(fields[4]), Seed(fields[5])
        client = int.from_bytes(fields[0], "little")
        session = cls(client, round, ring, entropy, label, identity, keys)
        if fields[2] != session.digest:
            raise ProtocolViolation(
                "the stored state belongs to another round or protection; its masks must not be "
                "used twice, so start a new session."
            )
        session._peers, session._shares = unpack(fields[6]), unpack(fields[7])
        session._survivors = tuple(read_array(fields[8], np.dtype("u8")).tolist())
        session._shown = fields[9]
        if identity is None and any(len(each) > 2 * KEY_BYTES for each in session._peers.values()):
            raise ProtocolViolation(
                "the stored state belongs to a session with pinned identities; name them again."
            )
        session.stage = _STAGES[fields[1][0]]
        return session


def _message_key(keys: bytes) -> bytes:
    return keys[KEY_BYTES : 2 * KEY_BYTES]
