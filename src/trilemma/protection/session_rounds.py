"""One round in one process: every session driven step by step, every message kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.execution.work_seconds import work_seconds
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.sessions import ProtectedClient, ProtectedServer
from trilemma.protection.transcripts import (
    Message,
    OwnUpdate,
    Released,
    RoundResult,
    Seconds,
    Transcript,
)
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.plain_payloads import write_update
from trilemma.protection.transports.wire import SERVER, write_message

__all__ = ["checked", "require_one_weight", "run_round"]


def run_round(
    protection: Protection,
    updates: Sequence[torch.Tensor] | torch.Tensor,
    weights: Sequence[int] | None,
    round: RoundInfo,
    *,
    entropy: Seeded | System | None = None,
    secret: Any = None,
    drops: Mapping[int, int] | None = None,
    curious: int | None = None,
) -> RoundResult:
    """All sessions of one round in this process.

    `updates` and `weights` are in the order of `round.participants`. `drops` says at which step
    (counted from 0) a client falls silent; `curious` is the client whose own update the
    transcript keeps (the first by default). `secret` is the clients' common key, or what each
    brings by its number.
    """
    updates, weights, curious = checked(updates, weights, round, curious)
    require_one_weight(protection, weights)
    entropy, drops = entropy or System(), drops or {}
    size, device = updates[0].numel(), updates[0].device
    rows = dict(zip(round.participants, updates, strict=True))
    counts = dict(zip(round.participants, weights, strict=True))
    start = work_seconds(device)
    clients = _started(protection, round, size, secret, entropy)
    protect, finish = (work_seconds(device) - start) / len(clients), 0.0
    start = work_seconds(device)
    public = None if secret is None else protection.transport.public(secret)
    server = ProtectedServer.start(protection, round, size, public=public)
    combine = work_seconds(device) - start
    messages: list[Message] = []
    inboxes: Mapping[int, bytes] = dict.fromkeys(round.participants, b"")
    released: Released | None = None
    step = 0
    while released is None:
        messages += [Message(step, SERVER, to, body) for to, body in inboxes.items() if body]
        before = any(clients[client].sent is None for client in inboxes)
        there = {
            client: inbox
            for client, inbox in inboxes.items()
            if step < drops.get(client, math.inf)
        }
        start = work_seconds(device)
        replies, released = _replies(clients, there, rows, counts)
        took = (work_seconds(device) - start) / max(1, len(there))
        protect, finish = (protect + took, finish) if before else (protect, finish + took)
        messages += [Message(step, client, SERVER, body) for client, body in replies.items()]
        start = work_seconds(device)
        if released is None:
            outcome = server.step(replies)
            if isinstance(outcome, Released):
                released = outcome
                messages += _broadcast(released, round, step + 1)
            else:
                inboxes = outcome
        combine += work_seconds(device) - start
        step += 1
    _require_all(protection, released, round)
    mean = released.mean.to(device, updates[0].dtype)
    own = clients[curious].sent
    if own is None or protection.cancels:
        own = protection.apply(rows[curious], curious, round, entropy, of_sum=True).values
    transcript = Transcript(
        round,
        size,
        tuple(messages),
        replace(released, mean=mean),
        tuple(counts[client] for client in released.clients),
        OwnUpdate(curious, own, counts[curious]),
    )
    return RoundResult(mean, transcript, Seconds(protect, combine, finish))


def _started(
    protection: Protection, round: RoundInfo, size: int, secret: Any, entropy: Seeded | System
) -> dict[int, ProtectedClient]:
    brought = secret if isinstance(secret, Mapping) else dict.fromkeys(round.participants, secret)
    return {
        client: ProtectedClient.start(
            protection, client, round, size, secret=brought[client], entropy=entropy
        )
        for client in round.participants
    }


def _replies(
    clients: Mapping[int, ProtectedClient],
    inboxes: Mapping[int, bytes],
    updates: Mapping[int, torch.Tensor],
    weights: Mapping[int, int],
) -> tuple[dict[int, bytes], Released | None]:
    """One step of each client: its reply, or the mean where clients open the sum themselves."""
    replies: dict[int, bytes] = {}
    released: Released | None = None
    for client, inbox in inboxes.items():
        session = clients[client]
        update = updates[client] if session.wants_update else None
        reply = session.step(inbox, update, weights[client])
        if isinstance(reply, Released):
            released = reply
        else:
            replies[client] = reply
    return replies, released


def checked(
    updates: Sequence[torch.Tensor] | torch.Tensor,
    weights: Sequence[int] | None,
    round: RoundInfo,
    curious: int | None,
) -> tuple[Sequence[torch.Tensor], Sequence[int], int]:
    """One flat update and one weight for each participant, and the one that is curious."""
    rows = list(updates)
    counts = [1] * len(rows) if weights is None else list(weights)
    if not len(rows) == len(counts) == len(round.participants):
        raise InvalidInput(
            f"round {round.number} has {len(round.participants)} participants, got "
            f"{len(rows)} updates and {len(counts)} weights; give one of each a client."
        )
    shapes = sorted({tuple(row.shape) for row in rows})
    if len(shapes) > 1 or len(shapes[0]) != 1:
        raise InvalidInput(
            f"updates must be flat vectors of one length, got shapes {shapes}; all clients "
            "must train the same model."
        )
    client = round.participants[0] if curious is None else curious
    round.require_participant(client)
    return rows, counts, client


def require_one_weight(protection: Protection, weights: Sequence[int]) -> None:
    """Raises where masks that cancel in a sum are weighed unlike."""
    if protection.cancels and len(set(weights)) > 1:
        raise InvalidInput(
            f"bounded masks cancel in an unweighted sum only, got weights {weights}; give all "
            "clients one weight."
        )


def _broadcast(released: Released, round: RoundInfo, step: int) -> list[Message]:
    """The mean as the server sends it to the clients: 32-bit floats, sent places only."""
    mean = released.mean.numpy()
    kept = mean if released.known is None else mean[released.known.numpy()]
    body = write_update(Payload(kept.astype(np.float32), released.weight))
    message = write_message("MEAN", round.digest(), SERVER, *body)
    return [Message(step, SERVER, client, message) for client in released.clients]


def _require_all(protection: Protection, released: Released, round: RoundInfo) -> None:
    """Raises where masks that cancel over all clients miss one of them."""
    if protection.cancels and (
        released.clients != round.participants or len(released.clients) < 2
    ):
        raise InvalidInput(
            f"bounded masks cancel over all of two or more clients, but {len(released.clients)} "
            f"of {len(round.participants)} answered; run a new round."
        )
