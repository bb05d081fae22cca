"""Messages of a protected round, one of them spoilt on its way, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from benchmarks.fuzzing.hostile import JSONS, name, spoilt_bytes
from benchmarks.fuzzing.judging import require
from trilemma.crypto.ciphertexts import Ciphertexts
from trilemma.crypto.paillier import PrivateKey
from trilemma.crypto.shamir import Share, combine, split
from trilemma.deployment.flower.messages import model_tensors, read_stages, write_stages
from trilemma.deployment.nodes.stages import Stage
from trilemma.entropy import System
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.sessions import ProtectedClient, ProtectedServer
from trilemma.protection.transcripts import Released
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain_payloads import read_update, write_update
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import HEADER_BYTES, pack, unpack

__all__ = ["messages"]

SIZE, CLIENTS = 6, 3
UPDATES = [torch.linspace(-1, 1, SIZE) * (client + 1) / 4 for client in range(CLIENTS)]
WEIGHTS = (1, 2, 4)
# What nothing on the way can tell from what its sender meant, and docs leave to the connection.
FREE = ("PLN", "MSK", "ENC", "OPN", "SUM")


def messages(draw: Random, _: Path) -> None:
    """A message that is accepted is the one that was sent, or differs where it is free to."""
    doors: tuple[Callable[[Random], None], ...] = (
        *(_round, _round, _round, _stages, _stages, _update, _vector, _table, _share),
        *(_model, _state),
    )
    draw.choice(doors)(draw)


# Whole rounds


@cache
def _key() -> PrivateKey:
    return PrivateKey.generate(System(), bits=256, insecure=True)


@cache
def _identities() -> tuple[Identity, ...]:
    made = [Identity.generate(System()) for _ in range(CLIENTS)]
    return tuple(item.pin({n: other.public for n, other in enumerate(made)}) for item in made)


def _protections() -> tuple[tuple[Protection, Any, Any], ...]:
    """A protection, the clients' secrets, and what the server knows of them."""
    paillier = Paillier(bits=256, mode="open", max_weight=10, insecure=True)
    sharing = SecretSharing(max_weight=10)
    return (
        (Protection(), [None] * CLIENTS, None),
        (Protection((TopK(0.5),)), [None] * CLIENTS, None),
        (Protection((Compression(0.5),)), [None] * CLIENTS, None),
        (Protection((), sharing), [None] * CLIENTS, None),
        (Protection((), sharing), _identities(), None),
        (Protection((), paillier), [_key()] * CLIENTS, _key().public),
        (Protection((), replace(paillier, mode="blind")), [_key()] * CLIENTS, _key().public),
    )


def _round(draw: Random) -> None:
    """Runs a round in which one message, either way, is spoilt."""
    protection, secrets, public = draw.choice(_protections())
    about = RoundInfo.new(range(CLIENTS), System(), run="fuzz", number=3)
    server = ProtectedServer.start(protection, about, SIZE, public=public)
    clients = [
        ProtectedClient.start(protection, number, about, SIZE, secret=secrets[number])
        for number in range(CLIENTS)
    ]
    inbox: Any = dict.fromkeys(range(CLIENTS), b"")
    target, changed = draw.randrange(10), ""
    released: Released | None = None
    for step in range(6):
        replies: dict[int, bytes] = {}
        for client, message in inbox.items():
            if target == 2 * step + 1 and client == 0 and message:
                message, changed = _spoilt(draw, message, changed)
            update = UPDATES[client] if clients[client].wants_update else None
            reply = clients[client].step(message, update, WEIGHTS[client])
            if isinstance(reply, Released):
                released = reply
            else:
                replies[client] = reply
        if released is not None:
            break
        if target == 2 * step:
            last = max(replies)
            replies[last], changed = _spoilt(draw, replies[last], changed)
        outcome = server.step(replies)
        if isinstance(outcome, Released):
            released = outcome
            break
        inbox = outcome
    require(released is not None, "a round without an end")
    if released is not None:
        _check_mean(protection, released, changed)


def _spoilt(draw: Random, message: bytes, changed: str) -> tuple[bytes, str]:
    made = spoilt_bytes(draw, message)
    if made == message:
        return made, changed
    kind = message[4:8].rstrip(b"\0").decode()
    require(made[:HEADER_BYTES] != message[:HEADER_BYTES] or len(kind) == 3, "no message")
    return made, kind


def _check_mean(protection: Protection, released: Released, changed: str) -> None:
    mean = released.mean
    require(tuple(mean.shape) == (SIZE,), f"a mean of shape {tuple(mean.shape)}")
    require(bool(torch.isfinite(mean).all()), "a mean that is not finite")
    require(released.weight >= len(released.clients) >= 1, f"a weight of {released.weight}")
    if protection.transport.fixed is not None:
        require(released.weight <= 10, f"a weight of {released.weight}, beyond the cap")
        require(float(mean.abs().max()) <= 1 + 1e-9, f"a mean of {mean}, beyond the range")
    if changed not in FREE:
        weight = sum(WEIGHTS)
        expected = sum((w * u for w, u in zip(WEIGHTS, UPDATES, strict=True)), torch.zeros(SIZE))
        known = torch.ones(SIZE, dtype=torch.bool) if not protection.transforms else None
        require(released.weight == weight, f"a weight of {released.weight} after {changed}")
        if known is not None:
            off = float((mean - expected / weight).abs().max())
            require(off < 1e-4, f"a mean that is off by {off} after {changed}")


def _state(draw: Random) -> None:
    """What a node wrote down of a session, damaged; the session that comes back is its own."""
    protection, secrets, _ = draw.choice(_protections())
    about = RoundInfo.new(range(CLIENTS), System(), run="fuzz", number=3)
    client = ProtectedClient.start(protection, 0, about, SIZE, secret=secrets[0])
    if draw.random() < 0.5 and not client.wants_update:
        client.step(b"")
    state = client.export()
    spoilt = spoilt_bytes(draw, state)
    found = ProtectedClient.start(protection, 0, about, SIZE, secret=secrets[0], state=spoilt)
    require(len(found.export()) > 0, "a session without a state")


# Parts of messages


def _update(draw: Random) -> None:
    values = np.linspace(-1, 1, 5, dtype=draw.choice((np.float32, np.float64)))
    places = np.array(sorted(draw.sample(range(40), 5))) if draw.random() < 0.6 else None
    body = b"".join(write_update(Payload(values, 3, places, 40 if places is not None else 0)))
    found = read_update(spoilt_bytes(draw, body) if draw.random() < 0.9 else body)
    if found.positions is not None:
        inside = found.positions
        require(bool((np.diff(inside) > 0).all()), "places that do not rise")
        require(not inside.size or 0 <= inside[0] <= inside[-1] < found.size, "places outside")
        require(inside.size == found.values.size, "places without values")
    require(found.weight >= 1, f"a weight of {found.weight}")
    if found.positions is None or found.size < 10**6:
        again = read_update(b"".join(write_update(found)))
        same = np.array_equal(found.values, again.values, equal_nan=True)
        require(same and again.weight == found.weight, "another update from its own bytes")


def _vector(draw: Random) -> None:
    key = _key()
    sent = key.encrypt([1, 2, 3], System())
    body = sent.to_bytes()
    found = key.public.receive(spoilt_bytes(draw, body) if draw.random() < 0.9 else body)
    require(Ciphertexts.from_bytes(found.to_bytes()) == found, "another vector from its bytes")
    require(found.fingerprint == key.public.fingerprint, "a vector of another key")
    key.decrypt(found)


def _table(draw: Random) -> None:
    body = pack(
        {item: draw.randbytes(draw.choice((0, 3, 20))) for item in draw.sample(range(9), 4)}
    )
    found = unpack(spoilt_bytes(draw, body) if draw.random() < 0.9 else body)
    require(unpack(pack(found)) == found, "another table from its own bytes")


def _share(draw: Random) -> None:
    secret = draw.randbytes(32)
    shares = [part.reveal() for part in split(secret, 2, 3, System())]
    shares[0] = spoilt_bytes(draw, shares[0]) if draw.random() < 0.8 else shares[0]
    found = combine([Share.from_bytes(share) for share in shares[:2]], 2)
    require(found == secret, "another secret")


# Flower's records

STAGE = Stage(77, "train", "0f" * 16, 3, (3, 40, 2**63 + 5), SIZE, "none", 0, {"update": b"abc"})


def _stages(draw: Random) -> None:
    records: dict[str, Any] = dict(write_stages([STAGE, replace(STAGE, number=4)]))
    chosen = f"trilemma.{draw.randrange(2)}"
    fields = dict(records[chosen])
    key = draw.choice(list(fields))
    kind = draw.random()
    if kind < 0.1:
        del fields[key]
    elif kind < 0.2:
        fields[name(draw)] = 1
    elif kind < 0.4 and isinstance(fields[key], bytes):
        fields[key] = spoilt_bytes(draw, fields[key])
    elif kind < 0.9:
        plain = [item for item in JSONS if isinstance(item, int | float | str)]
        fields[key] = draw.choice((*plain, name(draw), b"", b"\0" * 8, b"\xff" * 16, " 7", "1_0"))
    try:
        records[chosen] = ConfigRecord(fields)
        if kind > 0.9:
            bulk: Any = (ConfigRecord({"update": 1}), ArrayRecord({}), None)
            records[f"{chosen}.bytes"] = draw.choice(bulk)
        content = RecordDict({item: one for item, one in records.items() if one is not None})
    except (TypeError, ValueError, OverflowError):
        return  # Flower itself sends no such record
    found = read_stages(content)
    require(found == read_stages(RecordDict(dict(write_stages(found)))), "other stages from them")
    for stage in found:
        require(stage.kind in ("train", "evaluate"), f"a stage of kind {stage.kind!r}")
        require(len(stage.session) == 32 and stage.session.isalnum(), f"{stage.session!r}")
        rising = all(a < b for a, b in zip(stage.cohort, stage.cohort[1:], strict=False))
        require(bool(stage.cohort) and rising, f"a cohort of {stage.cohort}")


def _model(draw: Random) -> None:
    made = Array(np.linspace(-1, 1, SIZE, dtype=np.float32).reshape(2, 3))
    arrays = {"weight": made, "count": Array(np.array(7))}
    kind = draw.random()
    if kind < 0.6:
        made = Array(made.dtype, made.shape, made.stype, spoilt_bytes(draw, made.data))
    elif kind < 0.7:
        made = Array(made.dtype, made.shape, name(draw), made.data)
    elif kind < 0.8:
        odd: Any = (
            np.array(["a"]),
            np.array([1j]),
            np.array([True]),
            np.zeros((0, 3)),
            np.array(2.0),
        )
        made = Array(draw.choice(odd))
    arrays["weight"] = made
    layout, flat = model_tensors(ArrayRecord(arrays))
    require(tuple(flat.shape) == (layout.size,) and flat.is_floating_point(), "no model")
