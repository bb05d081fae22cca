"""What an adversary can read of a round: each message, the sum, or nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.mechanisms.plain import read_update
from trilemma.mechanisms.protocol import Knowledge, Masked, Payload, RoundInfo
from trilemma.mechanisms.transcripts import Transcript
from trilemma.mechanisms.wire import SERVER, open_message
from trilemma.observations import Adversary, Noise, Observation

if TYPE_CHECKING:
    from trilemma.mechanisms.protection import Protection

__all__ = ["observe", "observe_updates"]


def observe(
    protection: Protection, transcript: Transcript, adversary: Adversary
) -> list[Observation]:
    """`Protection.observe`."""
    round, size, released = transcript.round, transcript.size, transcript.released
    if adversary is Adversary.CLIENT:
        return _seen_by_client(protection, transcript)
    seen: list[Observation] = []
    if protection.transport.server_reads == "messages":
        knowledge = protection.knowledge(round, size)
        digest = round.digest(protection.label(round, size))
        for message in transcript.messages:
            if message.sender != SERVER:
                sent = read_update(open_message("PLN", digest, message.sender, message.body))
                made = _received(sent, knowledge.known, size, released.mean)
                seen.append(_observation(made, knowledge, (1.0,)))
    if _server_reads_sum(protection):
        knowledge = protection.knowledge(round, size, of_sum=True)
        shares = _shares(transcript.weights)
        seen.append(_observation(Masked(released.mean), knowledge, shares))
    return seen


def _seen_by_client(protection: Protection, transcript: Transcript) -> list[Observation]:
    released, own = transcript.released, transcript.own
    if own is None:
        raise InvalidInput("the transcript keeps no client's own update; name a curious one.")
    shares = dict(zip(released.clients, _shares(transcript.weights), strict=True))
    mine = shares.pop(own.client, 0.0)
    if not shares:
        return []
    knowledge = protection.knowledge(transcript.round, transcript.size, of_sum=True)
    part = mine * own.values
    slack = 8 * torch.finfo(part.dtype).eps * part.abs()  # what subtracting it leaves
    rest = _without_places(protection, released.mean - part, slack)
    return [_observation(rest, knowledge, tuple(shares.values()))]


def observe_updates(
    protection: Protection,
    updates: Sequence[torch.Tensor],
    weights: Sequence[int],
    adversary: Adversary,
    entropy: Seeded,
    round: RoundInfo,
    curious: int,
) -> list[Observation]:
    """`Protection.observe_updates`, for checked input."""
    size, who = updates[0].numel(), round.participants
    seen: list[Observation] = []
    if adversary is Adversary.SERVER:
        if protection.transport.server_reads == "messages":
            knowledge = protection.knowledge(round, size)
            for client, update in zip(who, updates, strict=True):
                made = protection.apply(update, client, round, entropy)
                seen.append(_observation(made, knowledge, (1.0,)))
        if not _server_reads_sum(protection) or (seen and len(who) == 1):
            return seen
    total = torch.zeros_like(updates[0])
    shares = []
    for client, update, share in zip(who, updates, _shares(weights), strict=True):
        if adversary is Adversary.SERVER or client != curious:
            made = protection.apply(update, client, round, entropy, of_sum=True)
            total += share * made.values
            shares.append(share)
    if shares:
        knowledge = protection.knowledge(round, size, of_sum=True)
        summed = Masked(total)
        if adversary is Adversary.CLIENT:
            summed = _without_places(protection, total)
        seen.append(_observation(summed, knowledge, tuple(shares)))
    return seen


def _server_reads_sum(protection: Protection) -> bool:
    """Whether the sum is all that the server reads, or tells it more than the messages."""
    reads = protection.transport.server_reads
    masks = any(each.cancels for each in protection.transforms)
    return reads == "sum" or (reads == "messages" and masks)


def _without_places(
    protection: Protection, values: torch.Tensor, slack: torch.Tensor | float = 0.0
) -> Masked:
    """A sum of messages whose places the server alone saw: what is not zero was sent."""
    if any(each.selects_by_value for each in protection.transforms):
        return Masked(values, values.abs() > slack)
    return Masked(values)


def _received(sent: Payload, known: torch.Tensor | None, size: int, like: torch.Tensor) -> Masked:
    """A plain message put back into its places [m]."""
    values = torch.from_numpy(sent.values.copy()).to(like.device, like.dtype)
    if sent.positions is not None:
        known = torch.zeros(size, dtype=torch.bool)
        known[torch.from_numpy(sent.positions)] = True
    if known is None:
        return Masked(values)
    full = like.new_zeros(size)
    full[known.to(like.device)] = values
    return Masked(full, known)


def _observation(sent: Masked, knowledge: Knowledge, shares: tuple[float, ...]) -> Observation:
    """Σ_k share_k · clip(u_k) + noise, with what everyone knows of it."""
    values, gain, noise = sent.values, knowledge.gain, knowledge.noise
    known = sent.known if knowledge.known is None else knowledge.known
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
        clip=knowledge.clip,
        clients=len(shares),
    )


def _shares(weights: Sequence[int]) -> tuple[float, ...]:
    total = sum(weights)
    return tuple(float(weight / total) for weight in weights)
