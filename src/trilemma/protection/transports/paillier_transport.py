"""Paillier homomorphic encryption: the server adds ciphertexts that it cannot read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from trilemma.crypto.keyfiles import load_private
from trilemma.crypto.packing import Packing
from trilemma.crypto.paillier import PrivateKey, PublicKey, check_bits
from trilemma.entropy import System
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients, WeakKey
from trilemma.protection.transports import wire
from trilemma.protection.transports.base import (
    Aggregate,
    Brings,
    ClientSession,
    Payload,
    Reads,
    ServerSession,
    require_payload,
)
from trilemma.protection.transports.fixed_point import FixedPointTransport, check_range
from trilemma.quantities import one_of

if TYPE_CHECKING:
    from pathlib import Path

    from trilemma.crypto.ciphertexts import Ciphertexts
    from trilemma.protection.round_info import RoundInfo

__all__ = ["Paillier"]

_STATE: Final = struct.Struct("<Q16sBQ")
_OPENED: Final = struct.Struct("<Qd")
_ALIKE: Final = 24  # ciphertexts that stand for all of a long update
_STAGES: Final = ("update", "open", "done", "failed")


@dataclass(frozen=True, kw_only=True)
class Paillier(FixedPointTransport):
    """Packed ciphertexts under one key that all clients hold and the server does not.

    `open`: one client opens the sum for the server, which then sees what secure aggregation
    shows it. `blind`: the encrypted sum goes back to the clients, and the server reads nothing.
    Either way a single client that helps the server opens every update, and nothing proves that a
    ciphertext was not altered on its way: the server must be honest, if curious.

    `bits` is the least length of the key.
    """

    bits: int = 3072
    mode: Literal["open", "blind"] = "open"
    insecure: bool = False

    name: ClassVar[str] = "paillier"
    caveat: ClassVar[str] = (
        "Paillier: one client that helps the server opens every update, and the server is trusted "
        "to follow the protocol."
    )
    brings: ClassVar[Brings] = "key"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("mode", self.mode, ("open", "blind"))
        check_bits(self.bits, insecure=self.insecure)
        object.__setattr__(self, "bits", int(self.bits))

    @property
    def alike(self) -> int:
        """Those of whole ciphertexts, with the two slots that an update takes besides."""
        return _ALIKE * Packing(self.fixed, self.bits - 1).slots - 2

    @property
    def server_reads(self) -> Reads:
        return "sum" if self.mode == "open" else "nothing"

    def packing(self, public: PublicKey) -> Packing:
        """How values are laid out under this key."""
        return Packing(self.fixed, public.plaintext_bits)

    def opened(self) -> Paillier:
        return replace(self, mode="open")

    def new_secret(self, entropy: System) -> PrivateKey:
        return PrivateKey.generate(entropy, bits=self.bits, insecure=self.insecure)

    def load_secret(self, path: Path) -> PrivateKey:
        return load_private(path, insecure=self.insecure)

    def client(
        self, client: int, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        """A session of a client that holds the private key `secret`."""
        round.require_participant(client)
        return _PaillierClient(self, client, round, self._private(secret), entropy, label)

    def restore(
        self, state: bytes, round: RoundInfo, secret: Any, entropy: System, label: bytes = b""
    ) -> ClientSession:
        client, digest, stage, length = _STATE.unpack(state)
        session = _PaillierClient(self, client, round, self._private(secret), entropy, label)
        if digest != session.digest:
            raise ProtocolViolation(
                "the stored state belongs to another round or protection; start a new session."
            )
        session.stage, session.length = _STAGES[stage], length
        return session

    def server(self, round: RoundInfo, public: Any = None, label: bytes = b"") -> ServerSession:
        if not isinstance(public, PublicKey):
            raise InvalidInput(
                f"the server of a Paillier round needs the clients' public key, got "
                f"{type(public).__name__}; pass PrivateKey.public, or load_public's."
            )
        self._check_length(public)
        return _PaillierServer(self, round, public, label)

    def public(self, secret: Any) -> PublicKey:
        return self._private(secret).public

    def describe(self) -> str:
        """Without `insecure`, which does not change what is sent."""
        return (
            f"{self.name}:bits={self.bits},mode={self.mode},clip_range={self.clip_range!r},"
            f"precision_bits={self.precision_bits},max_weight={self.max_weight}"
        )

    def honest(self, clients: int, threshold: int, helpers: int) -> int:
        """All of the threshold, or one: a client that helps the server opens every message."""
        return 1 if helpers else threshold

    def words(self, number: Callable[[float], str]) -> str:
        reads = "reads nothing" if self.mode == "blind" else "reads the sum"
        return f"Paillier encryption (the server {reads})"

    def _private(self, secret: Any) -> PrivateKey:
        if not isinstance(secret, PrivateKey):
            raise InvalidInput(
                f"a Paillier client needs the federation's private key, got "
                f"{type(secret).__name__}; make one with `trilemma keys new`."
            )
        self._check_length(secret.public)
        return secret

    def _check_length(self, public: PublicKey) -> None:
        if public.bits < self.bits:
            raise WeakKey(
                f"the key has {public.bits} bits, but the transport asks for {self.bits}; make a "
                f"longer one with `trilemma keys new`."
            )


class _PaillierClient(ClientSession):
    """Encrypts once and opens once; the key stays with its owner."""

    def __init__(
        self,
        transport: Paillier,
        client: int,
        round: RoundInfo,
        key: PrivateKey,
        entropy: System,
        label: bytes,
    ) -> None:
        self.transport, self.client, self.round, self._key = transport, client, round, key
        self.entropy, self.digest = entropy, round.digest(transport.bound_label(label))
        self.stage, self.length = "update", 0

    @property
    def wants_update(self) -> bool:
        return self.stage == "update"

    def step(self, inbox: bytes, payload: Payload | None = None) -> bytes | Aggregate:
        stage, self.stage = self.stage, "failed"  # until this step has succeeded
        if stage == "update":
            reply = self._encrypt(require_payload(payload))
            self.stage = "open"
            return reply
        if stage != "open":
            self.stage = stage
            raise ProtocolViolation(
                f"client {self.client} opens one sum a round and has "
                f"{'done so' if stage == 'done' else 'left it'}; start a new round."
            )
        opened = self._open(inbox)
        self.stage = "done"
        return opened

    def _encrypt(self, payload: Payload) -> bytes:
        check_range(payload.values, self.transport.fixed, self.client)
        self.length = payload.values.size
        words = self.transport.packing(self._key.public).pack(payload.values, payload.weight)
        vector = self._key.encrypt(words, self.entropy)
        return wire.write_message("ENC", self.digest, self.client, vector.to_bytes())

    def _open(self, inbox: bytes) -> bytes | Aggregate:
        parts = wire.unpack(wire.open_message("SUM", self.digest, wire.SERVER, inbox))
        if set(parts) != {0, 1}:
            raise ProtocolViolation(
                f"the server's sum has parts {sorted(parts)} and needs 0 and 1; it was altered."
            )
        clients = tuple(int(item) for item in wire.read_array(parts[0], np.dtype("u8")))
        vector = self._key.public.receive(parts[1])
        if set(clients) - set(self.round.participants) or len(clients) != vector.summands:
            raise ProtocolViolation(
                f"the server names clients {clients!r:.80} for a sum of {vector.summands} "
                "updates; it is forged, so nothing is opened."
            )
        self.round.require_enough(len(set(clients)))
        packing = self.transport.packing(self._key.public)
        summed = packing.unpack(self._key.decrypt(vector), self.length, vector.summands)
        if self.transport.mode == "blind":
            return Aggregate(summed.mean, clients, summed.weight)
        head = _OPENED.pack(summed.weight, summed.step)
        return wire.write_message(
            "OPN", self.digest, self.client, head + summed.units.astype("<i8").tobytes()
        )

    def export(self) -> bytes:
        return _STATE.pack(self.client, self.digest, _STAGES.index(self.stage), self.length)


class _PaillierServer(ServerSession):
    """Adds ciphertexts, re-randomises the sum, and asks for it to be opened or hands it out."""

    def __init__(
        self, transport: Paillier, round: RoundInfo, public: PublicKey, label: bytes
    ) -> None:
        self.transport, self.round, self.key = transport, round, public
        self.digest = round.digest(transport.bound_label(label))
        self.stage = "update"
        self.clients: tuple[int, ...] = ()
        self.openers: list[int] = []
        self.summed = b""

    def step(self, replies: Mapping[int, bytes]) -> Mapping[int, bytes] | Aggregate:
        stage, self.stage = self.stage, "failed"  # until this step has succeeded
        if stage == "update":
            self._add(replies)
        elif stage == "open":
            if set(replies) - {self.openers[0]}:
                raise ProtocolViolation("a client that was not asked opens a sum; it is forged.")
            if replies:
                self.stage = "done"
                return self._opened(replies[self.openers[0]])
            self.openers = self.openers[1:]  # the one that was asked is gone
        else:
            raise ProtocolViolation(
                f"round {self.round.number} is over; start a new one with a new session."
            )
        if self.transport.mode == "blind":
            self.stage = "done"
            return dict.fromkeys(self.clients, self.summed)
        if not self.openers:
            raise TooFewClients(
                f"no client of round {self.round.number} is left to open the sum; run a new round."
            )
        self.stage = "open"
        return {self.openers[0]: self.summed}

    def _add(self, replies: Mapping[int, bytes]) -> None:
        self.round.require_enough(len(replies))
        for client in replies:
            self.round.require_participant(client)
        self.clients = tuple(sorted(replies))
        self.openers = list(self.clients)
        total = self.key.rerandomise(self.key.add(self._received(replies)), System())
        listed = np.array(self.clients, "<u8").tobytes()
        body = wire.pack({0: listed, 1: total.to_bytes()})
        self.summed = wire.write_message("SUM", self.digest, wire.SERVER, body)

    def _received(self, replies: Mapping[int, bytes]) -> Iterator[Ciphertexts]:
        for client in self.clients:
            body = wire.open_message("ENC", self.digest, client, replies[client])
            vector = self.key.receive(bytes(body))
            if vector.summands != 1:
                raise ProtocolViolation(
                    f"client {client} sent a sum of {vector.summands} updates instead of its own."
                )
            yield vector

    def _opened(self, message: bytes) -> Aggregate:
        body = wire.open_message("OPN", self.digest, self.openers[0], message)
        if len(body) < _OPENED.size:
            raise ProtocolViolation(
                f"an opened sum of {len(body)} bytes is cut short; run the round again."
            )
        weight, step = _OPENED.unpack_from(body)
        units = wire.read_array(body[_OPENED.size :], np.dtype("i8"))
        fixed = self.transport.fixed
        if step != fixed.step:
            raise ProtocolViolation(
                f"a sum was opened in units of {step:g} instead of {fixed.step:g}; it is altered, "
                "run the round again."
            )
        summed = fixed.sum(units, weight, len(self.clients))
        return Aggregate(summed.mean, self.clients, summed.weight)
