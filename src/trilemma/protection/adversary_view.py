"""What an adversary can read of a round: each message, the sum, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from trilemma.errors import InvalidInput
from trilemma.observations import Adversary, Noise, Observation
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transcripts import Transcript
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.wire import SERVER

__all__ = [
    "observe",
    "observed_message",
    "observed_shares",
    "observed_sum",
    "server_reads_sum",
    "without_places",
]


def observe(
    protection: Protection, transcript: Transcript, adversary: Adversary
) -> list[Observation]:
    """Everything of a round that the server, or its curious client, can read of updates.

    The server reads each message, or the sum, or nothing, as the transport says; where masks
    cancel it reads the messages and the sum. A client reads the mean, less its own part.
    """
    round, size, released = transcript.round, transcript.size, transcript.released
    if adversary is Adversary.CLIENT:
        return _seen_by_client(protection, transcript)
    seen: list[Observation] = []
    if protection.transport.server_reads == "messages":
        label = protection.label(round, size)
        for message in transcript.messages:
            if message.sender != SERVER:
                mechanism = protection.mechanism_info(round, size, message.sender)
                sent = protection.transport.read(message.body, message.sender, round, label)
                made = _received(sent, mechanism.known, size, released.mean)
                seen.append(observed_message(made, mechanism))
    if server_reads_sum(protection):
        shares = observed_shares(released.clients, transcript.weights)
        seen.append(observed_sum(protection, SparseUpdate(released.mean), round, shares))
    return seen


def _seen_by_client(protection: Protection, transcript: Transcript) -> list[Observation]:
    released, own = transcript.released, transcript.own
    if own is None:
        raise InvalidInput("the transcript keeps no client's own update; name a curious one.")
    shares = observed_shares(released.clients, transcript.weights)
    mine = shares.pop(own.client, 0.0)
    if not shares:
        return []
    part = mine * own.values
    slack = 8 * torch.finfo(part.dtype).eps * part.abs()  # what subtracting it leaves
    rest = without_places(protection, released.mean - part, slack)
    return [observed_sum(protection, rest, transcript.round, shares)]


def server_reads_sum(protection: Protection) -> bool:
    """Whether the sum is all that the server reads, or tells it more than the messages."""
    reads = protection.transport.server_reads
    return reads == "sum" or (reads == "messages" and protection.cancels)


def without_places(
    protection: Protection, values: torch.Tensor, slack: torch.Tensor | float = 0.0
) -> SparseUpdate:
    """A sum of messages whose places the server alone saw: what is not zero was sent."""
    if any(transform.selects_by_value for transform in protection.transforms):
        return SparseUpdate(values, values.abs() > slack)
    return SparseUpdate(values)


def _received(
    sent: Payload, known: torch.Tensor | None, size: int, like: torch.Tensor
) -> SparseUpdate:
    """A plain message put back into its places [m]."""
    values = torch.from_numpy(sent.values.copy()).to(like.device, like.dtype)
    if sent.positions is not None:
        known = torch.zeros(size, dtype=torch.bool)
        known[torch.from_numpy(sent.positions)] = True
    if known is None:
        return SparseUpdate(values)
    full = like.new_zeros(size)
    full[known.to(like.device)] = values
    return SparseUpdate(full, known)


def observed_message(sent: SparseUpdate, mechanism: MechanismInfo) -> Observation:
    """What is read of one client's message."""
    return _observation(sent, mechanism, (1.0,))


def observed_sum(
    protection: Protection, sent: SparseUpdate, round: RoundInfo, shares: Mapping[int, float]
) -> Observation:
    """Σ_k share_k · clip(u_k) + noise; with places of their own, each k only where k sent."""
    size, first = sent.values.numel(), next(iter(shares))
    mechanism = protection.mechanism_info(round, size, first, of_sum=True)
    seen = _observation(sent, mechanism, tuple(shares.values()))
    if not protection.own_places or mechanism.known is None or len(shares) == 1:
        return seen
    of = (protection.mechanism_info(round, size, client, of_sum=True) for client in shares)
    masks = [item.known for item in of if item.known is not None]
    rows = torch.stack(masks).to(sent.values.device)
    weights = rows * sent.values.new_tensor(list(shares.values()))[:, None]
    update, known = seen.update, rows.any(0)
    if seen.noise is not None:
        # The noise of those who sent; scaled to that of all, it has one deviation everywhere.
        spread = torch.where(known, weights.norm(dim=0), 1.0) / math.hypot(*shares.values())
        update, weights = update / spread, weights / spread
    return replace(seen, update=update, known=known, weights=weights)


def _observation(
    sent: SparseUpdate, mechanism: MechanismInfo, shares: tuple[float, ...]
) -> Observation:
    """Σ_k share_k · clip(u_k) + noise, with what everyone knows of it."""
    values, gain, noise = sent.values, mechanism.gain, mechanism.noise
    known = sent.known if mechanism.known is None else mechanism.known
    if isinstance(gain, torch.Tensor):
        values = values / gain.to(values.device, values.dtype)
    elif gain != 1:
        values = values / gain
    if noise is not None:
        noise = Noise(noise.kind, noise.scale * math.hypot(*shares))
    return Observation(
        update=values,
        known=None if known is None else known.to(values.device, copy=True),
        noise=noise,
        weights=shares,
        clip=mechanism.clip,
        limit=mechanism.limit,
        clients=len(shares),
    )


def observed_shares(clients: Sequence[int], weights: Sequence[int]) -> dict[int, float]:
    """Each client's part in a mean by weights."""
    total = sum(weights)
    return {client: float(weight / total) for client, weight in zip(clients, weights, strict=True)}
