"""A round's arithmetic without its messages: the same mean, and what is read of it.

Paillier and secure aggregation compute Σ w_k q_k exactly, in whole units of the fixed-point grid;
so does this, in the clear. Utility and what updates give away can be measured with it, never
secrecy of a protocol, bits or seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np
import torch

from trilemma.crypto.packing import FixedPoint
from trilemma.entropy import Seeded
from trilemma.errors import ProtocolViolation
from trilemma.observations import Adversary, Observation
from trilemma.protection.adversary_view import (
    observed_message,
    observed_shares,
    observed_sum,
    server_reads_sum,
    without_places,
)
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import checked, require_one_weight
from trilemma.protection.sessions import protected
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transports import PLAIN
from trilemma.protection.transports.base import check_whole
from trilemma.protection.transports.fixed_point import (
    check_range,
    check_weight,
    edge_of,
    share_saturated,
    units_beyond,
)

__all__ = ["Arithmetic", "is_exact"]

_BLOCK: Final = 1 << 16  # values at a time: a block of doubles stays in a CPU's cache
_EXACT: Final = 1 << 53  # up to which doubles hold every whole number


def is_exact(protection: Protection) -> bool:
    """Whether the arithmetic gives a round's bits: on a grid, or where nothing cancels."""
    plain = protection.transport == PLAIN and not protection.cancels
    return plain or protection.transport.fixed is not None


class Arithmetic:
    """One round of clients with these updates, where everyone answers.

    `updates` and `weights` are in the order of `round.participants`. Noise is drawn as `run_round`
    draws it, and all is computed where the updates live.
    """

    def __init__(
        self,
        protection: Protection,
        updates: Sequence[torch.Tensor] | torch.Tensor,
        weights: Sequence[int] | None,
        round: RoundInfo,
        entropy: Seeded,
    ) -> None:
        self.protection, self.round, self.entropy = protection, round, entropy
        self.updates, self.weights, _ = checked(updates, weights, round, None)
        self._sent = list(zip(round.participants, self.updates, strict=True))
        self._shares = observed_shares(round.participants, self.weights)

    def exact_mean(self) -> torch.Tensor:
        """The mean [m]: Σ_k w_k u_k / Σ_k w_k, on a grid step · Σ_k w_k round(u_k / step).

        To the bit what `run_round` gives, with its errors.
        """
        protection, info, like = self.protection, self.round, self.updates[0]
        require_one_weight(protection, self.weights)
        sent = (
            (client, protected(protection, update, client, info, self.entropy).values, weight)
            for (client, update), weight in zip(self._sent, self.weights, strict=True)
        )
        if (fixed := protection.transport.fixed) is None:
            total = _plain_sum(like, sent)
            if not bool(torch.isfinite(total).all()):
                raise ProtocolViolation(
                    "an update contains NaN or infinity; leave its client out."
                )
            mean = total / sum(self.weights)
        else:
            places = _places(protection, info, like)
            mean = _grid_mean(fixed, like, places, sent, sum(self.weights), len(self.updates))
        return mean.to(like.dtype)

    @cached_property
    def mean(self) -> torch.Tensor:
        """The mean [m] before any rounding to a grid, and of whatever numbers."""
        return self._mean_of(self._shares)

    def read_by(self, adversary: Adversary, curious: int | None = None) -> Iterator[Observation]:
        """What `observe` gives for such a round, one after the other.

        One client alone shows the server its message; it has no sum to hide in. `curious` is the
        client that is (None: the first).
        """
        protection, info, shares = self.protection, self.round, self._shares
        if adversary is Adversary.CLIENT:
            curious = info.participants[0] if curious is None else curious
            info.require_participant(curious)
            if others := {client: share for client, share in shares.items() if client != curious}:
                rest = without_places(protection, self._mean_of(others))
                yield observed_sum(protection, rest, info, others)
            return
        messages = protection.transport.server_reads == "messages"
        if messages:
            for client, update in self._sent:
                sent = protection.apply(update, client, info, self.entropy)
                yield observed_message(
                    sent, protection.mechanism_info(info, update.numel(), client)
                )
        if server_reads_sum(protection) and not (messages and len(shares) == 1):
            yield observed_sum(protection, SparseUpdate(self.mean), info, shares)

    def _mean_of(self, shares: Mapping[int, float]) -> torch.Tensor:
        """Σ_k share_k u_k [m] of those that have a share, without what cancels."""
        total = torch.zeros_like(self.updates[0])
        for client, update in self._sent:
            if client in shares:
                made = self.protection.apply(update, client, self.round, self.entropy, of_sum=True)
                total += shares[client] * made.values
        return total


def _plain_sum(like: torch.Tensor, sent: Iterable[tuple[int, torch.Tensor, int]]) -> torch.Tensor:
    """Σ_k w_k u_k in double precision of what each client sends, zero where it sends nothing."""
    total = torch.zeros_like(like, dtype=torch.float64)
    for _, values, weight in sent:
        check_whole(weight)
        total += _as_sent(values.detach()).double() * weight
    return total


def _grid_mean(
    fixed: FixedPoint,
    like: torch.Tensor,
    places: torch.Tensor | None,
    sent: Iterator[tuple[int, torch.Tensor, int]],
    total: int,
    clients: int,
) -> torch.Tensor:
    """The mean in whole units of the grid; `places` are those that all clients send.

    Of a small model several clients are rounded together: a tenth of the operations.
    """
    size = like.numel() if places is None else places.numel()
    held = torch.float64 if fixed.levels * fixed.max_weight <= _EXACT else torch.int64
    sums, beyond = like.new_zeros(size, dtype=held), 0
    several = max(1, _BLOCK // max(1, size))
    while some := list(islice(sent, several)):
        for _, _, weight in some:
            check_whole(weight)
            check_weight(weight, fixed)
        rows = [_as_sent(made if places is None else made[places]) for _, made, _ in some]
        beyond += _add(sums, rows, [(client, weight) for client, _, weight in some], fixed)
    fixed.check_total(total, clients)
    unit = fixed.step / total
    share_saturated(beyond * unit, size, fixed)
    mean = sums.double().mul_(unit)
    return mean if places is None else mean.new_zeros(like.numel()).index_copy_(0, places, mean)


def _as_sent(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _places(protection: Protection, round: RoundInfo, update: torch.Tensor) -> torch.Tensor | None:
    """Where the sent coordinates lie, the same for all clients; None for everywhere."""
    positions = protection.mechanism_info(round, update.numel(), round.participants[0]).positions
    return None if positions is None else torch.from_numpy(positions).to(update.device)


def _add(
    sums: torch.Tensor,
    given: Sequence[torch.Tensor],
    senders: Sequence[tuple[int, int]],
    fixed: FixedPoint,
) -> int:
    """Adds Σ_k w_k · round(values_k / step) to the sums [n]; the units of values beyond ±clip.

    `senders` are the clients and their weights. In double precision and to the nearest even unit,
    as `FixedPoint.quantise` rounds.
    """
    if not sums.numel():
        return 0
    rows = given[0][None] if len(given) == 1 else torch.stack(list(given))
    edge = edge_of(fixed, np.float64 if rows.dtype == torch.float64 else np.float32)
    low, high = (float(item) for item in torch.aminmax(rows))
    if math.isnan(low):  # made by a transform: the update itself held numbers
        place = int(rows.isnan().any(1).nonzero()[0])
        check_range(np.array([low]), fixed, senders[place][0])
    beyond = 0
    if low < -edge or high > edge:
        counts = ((rows < -edge) | (rows > edge)).sum(1).tolist()
        beyond = sum(
            weight * units_beyond(count, sums.numel(), fixed)
            for count, (_, weight) in zip(counts, senders, strict=True)
        )
    block = sums.numel() if rows.is_cuda else min(_BLOCK, sums.numel())
    room = rows.new_empty((len(rows), block), dtype=torch.float64)
    blocks = zip(torch.split(rows, block, 1), torch.split(sums, block), strict=True)
    for some, kept in blocks:
        units = room[:, : some.shape[1]].copy_(some)
        units.clamp_(-edge, edge).mul_(1 / fixed.step).round_()
        for own, (_, weight) in zip(units.to(kept.dtype), senders, strict=True):
            kept.add_(own, alpha=weight)
    return beyond
