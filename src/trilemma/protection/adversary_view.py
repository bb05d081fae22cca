"""What an adversary can read of a round: each message, the sum, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.observations import Adversary, Noise, Observation
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import checked
from trilemma.protection.transcripts import Transcript
from trilemma.protection.transforms.base import Making, Partial
from trilemma.protection.transports.base import Payload
from trilemma.protection.transports.wire import SERVER

__all__ = ["observe", "observe_updates", "summed"]


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
                making = protection.making(round, size, message.sender)
                sent = protection.transport.read(message.body, message.sender, round, label)
                made = _received(sent, making.known, size, released.mean)
                seen.append(_observation(made, making, (1.0,)))
    if _server_reads_sum(protection):
        shares = _shares(released.clients, transcript.weights)
        seen.append(_observed_sum(protection, Partial(released.mean), round, shares))
    return seen


def _seen_by_client(protection: Protection, transcript: Transcript) -> list[Observation]:
    released, own = transcript.released, transcript.own
    if own is None:
        raise InvalidInput("the transcript keeps no client's own update; name a curious one.")
    shares = _shares(released.clients, transcript.weights)
    mine = shares.pop(own.client, 0.0)
    if not shares:
        return []
    part = mine * own.values
    slack = 8 * torch.finfo(part.dtype).eps * part.abs()  # what subtracting it leaves
    rest = _without_places(protection, released.mean - part, slack)
    return [_observed_sum(protection, rest, transcript.round, shares)]


def observe_updates(
    protection: Protection,
    updates: Sequence[torch.Tensor] | torch.Tensor,
    weights: Sequence[int] | None,
    adversary: Adversary,
    *,
    entropy: Seeded,
    round: RoundInfo,
    curious: int | None = None,
) -> list[Observation]:
    """What `observe` gives for a run of these updates [K, m], without running any protocol.

    The same draws of `entropy` as in `run_round`, and no fixed-point rounding. One client alone
    (K = 1) shows the server its message; it has no sum to hide in.
    """
    updates, weights, curious = checked(protection, updates, weights, round, curious)
    size, who = updates[0].numel(), round.participants
    seen: list[Observation] = []
    if adversary is Adversary.SERVER:
        if protection.transport.server_reads == "messages":
            for client, update in zip(who, updates, strict=True):
                made = protection.apply(update, client, round, entropy)
                seen.append(_observation(made, protection.making(round, size, client), (1.0,)))
        if not _server_reads_sum(protection) or (seen and len(who) == 1):
            return seen
    shares = _shares(who, weights)
    if adversary is Adversary.CLIENT:
        del shares[curious]
    if shares:
        total = summed(protection, updates, shares, round, entropy)
        whole = Partial(total)
        if adversary is Adversary.CLIENT:
            whole = _without_places(protection, total)
        seen.append(_observed_sum(protection, whole, round, shares))
    return seen


def summed(
    protection: Protection,
    updates: Sequence[torch.Tensor],
    shares: Mapping[int, float],
    round: RoundInfo,
    entropy: Seeded,
) -> torch.Tensor:
    """Σ_k share_k · update_k [m], as protected, over the participants that have a share."""
    total = torch.zeros_like(updates[0])
    for client, update in zip(round.participants, updates, strict=True):
        if client in shares:
            made = protection.apply(update, client, round, entropy, of_sum=True)
            total += shares[client] * made.values
    return total


def _server_reads_sum(protection: Protection) -> bool:
    """Whether the sum is all that the server reads, or tells it more than the messages."""
    reads = protection.transport.server_reads
    return reads == "sum" or (reads == "messages" and protection.cancels)


def _without_places(
    protection: Protection, values: torch.Tensor, slack: torch.Tensor | float = 0.0
) -> Partial:
    """A sum of messages whose places the server alone saw: what is not zero was sent."""
    if any(each.selects_by_value for each in protection.transforms):
        return Partial(values, values.abs() > slack)
    return Partial(values)


def _received(sent: Payload, known: torch.Tensor | None, size: int, like: torch.Tensor) -> Partial:
    """A plain message put back into its places [m]."""
    values = torch.from_numpy(sent.values.copy()).to(like.device, like.dtype)
    if sent.positions is not None:
        known = torch.zeros(size, dtype=torch.bool)
        known[torch.from_numpy(sent.positions)] = True
    if known is None:
        return Partial(values)
    full = like.new_zeros(size)
    full[known.to(like.device)] = values
    return Partial(full, known)


def _observed_sum(
    protection: Protection, sent: Partial, round: RoundInfo, shares: Mapping[int, float]
) -> Observation:
    """Σ_k share_k · clip(u_k) + noise; with places of their own, each k only where k sent."""
    size, first = sent.values.numel(), next(iter(shares))
    making = protection.making(round, size, first, of_sum=True)
    seen = _observation(sent, making, tuple(shares.values()))
    if not protection.own_places or making.known is None or len(shares) == 1:
        return seen
    of = (protection.making(round, size, client, of_sum=True) for client in shares)
    masks = [each.known for each in of if each.known is not None]
    rows = torch.stack(masks).to(sent.values.device)
    weights = rows * sent.values.new_tensor(list(shares.values()))[:, None]
    update, known = seen.update, rows.any(0)
    if seen.noise is not None:
        # The noise of those who sent; scaled to that of all, it has one deviation everywhere.
        spread = torch.where(known, weights.norm(dim=0), 1.0) / math.hypot(*shares.values())
        update, weights = update / spread, weights / spread
    return replace(seen, update=update, known=known, weights=weights)


def _observation(sent: Partial, making: Making, shares: tuple[float, ...]) -> Observation:
    """Σ_k share_k · clip(u_k) + noise, with what everyone knows of it."""
    values, gain, noise = sent.values, making.gain, making.noise
    known = sent.known if making.known is None else making.known
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
        clip=making.clip,
        clients=len(shares),
    )


def _shares(clients: Sequence[int], weights: Sequence[int]) -> dict[int, float]:
    total = sum(weights)
    return {client: float(weight / total) for client, weight in zip(clients, weights, strict=True)}
