"""Canaries in the running federation: what was proved, held against what its code releases.

A canary is a vector that a consenting client adds to its records' gradients, in all rounds or in
none, by a coin. It passes the clip, the sum, the noise and the transport that records pass, and
what comes out is compared with the auditor's directions. No record is looked at, and none is at
risk: of 500 canaries the model feels less than of the noise.

In a round the directions are orthogonal (`accounting.canary_bound`): columns of a cosine
transform, in an order and with signs drawn anew. They cost no memory, and one transform reads all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.fft import dct, idct

from trilemma.accounting.canary_bound import LEAST, CanaryCount, count_canaries
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.federation.cohorts import Cohorts, Federated, pooled
from trilemma.federation.conformance import Finding, Residuals
from trilemma.federation.round import Rounds
from trilemma.federation.server import Server
from trilemma.learning import summed_records
from trilemma.observations import Adversary
from trilemma.protection.adversary_view import observe
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.session_rounds import run_round
from trilemma.protection.sessions import protected
from trilemma.quantities import counted, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.federation.recipe import Recipe
    from trilemma.protection.protection import Protection
    from trilemma.protection.round_info import RoundInfo
    from trilemma.records.records import Records

__all__ = ["RAW", "Canaries", "CanaryRun", "run_canaries"]

RAW: Final = 4.0  # clips: how long a canary is before it is clipped, which shows where nothing is
_BLOCK: Final = 1 << 22  # coordinates of canaries that are written out at once


@dataclass(frozen=True)
class Canaries:
    """`count` directions in each round of a model of `parameters`, and the coin of each.

    Canary i belongs to client i modulo `clients`.

    >>> canaries = Canaries(count=3, parameters=16, clients=2, seed=1)
    >>> rows = canaries.rows(0, np.arange(3))
    >>> bool(np.allclose(rows @ rows.T, np.eye(3)))
    True
    """

    count: int
    parameters: int
    clients: int
    seed: int

    def __post_init__(self) -> None:
        if counted("canaries", self.count) > self.parameters:
            raise InvalidInput(
                f"the directions of canaries are orthogonal, so that {self.parameters} parameters "
                f"have room for as many, got {self.count}; take fewer."
            )

    @property
    def used(self) -> NDArray[np.bool_]:
        """The coins [count]."""
        coins = Seeded(self.seed).generator("canary coins").integers(0, 2, self.count)
        return coins.astype(bool)

    def of(self, client: int) -> NDArray[np.int64]:
        """The canaries that a client uses."""
        return np.flatnonzero(self.used & (np.arange(self.count) % self.clients == client))

    def rows(self, round: int, which: NDArray[np.int64]) -> NDArray[np.float64]:
        """The directions [k, m] of some canaries, each of norm 1."""
        signs, places = self.drawn(round)
        units = np.zeros((len(which), self.parameters))
        units[np.arange(len(which)), places[which]] = 1.0
        made: NDArray[np.float64] = idct(units, norm="ortho", overwrite_x=True)
        return made * signs

    def products(self, round: int, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """⟨vector, direction⟩ [count] of all canaries."""
        signs, places = self.drawn(round)
        transformed: NDArray[np.float64] = dct(vector * signs, norm="ortho")
        return transformed[places]

    def drawn(self, round: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The signs [m] of a round's directions, and the places [count] in the transform."""
        draw = Seeded(self.seed).generator("canary directions", round)
        signs = np.where(draw.integers(0, 2, self.parameters) == 1, 1.0, -1.0)
        return signs, draw.permutation(self.parameters)[: self.count]


@dataclass(frozen=True)
class CanaryRun:
    """A training with canaries: what they show, and what its noise looks like."""

    rounds: int
    count: CanaryCount
    findings: tuple[Finding, ...]


def run_canaries(
    federated: Federated,
    protection: Protection,
    recipe: Recipe,
    *,
    clip: float,
    denominator: float,
    canaries: int,
    seed: int,
    entropy: Seeded | System | None = None,
    messages: bool = True,
    public: Records | None = None,
    weights: torch.Tensor | None = None,
) -> CanaryRun:
    """Train by the recipe, as deployed, with canaries of four times the `clip` that was proved.

    `clip` and `denominator` are the proof's; `recipe` and `protection` what runs. `seed` draws
    coins and directions, `entropy` feeds the noise (None: the system's, as deployed). Without
    `messages` the same sums are computed without keys, shares and masks.
    """
    _check(protection, recipe)
    positive("clip", clip)
    if canaries < LEAST:
        raise InvalidInput(
            f"canaries must be at least {LEAST}, as fewer show hardly anything, got {canaries}."
        )
    assert recipe.rounds is not None, "checked"
    clients = tuple(range(len(federated.records)))
    run = Rounds(federated.task, recipe.local_training, pooled(federated), protection)
    size = federated.task.layout.size
    hidden = Canaries(canaries, size, len(clients), seed)
    if entropy is None:
        entropy = System() if messages else Seeded(seed)
    secret = protection.transport.new_secret(System()) if messages else None
    server = Server(federated.task, recipe, recipe.rounds, public)
    cohorts = Cohorts(federated, recipe, len(clients), seed, "canaries")
    if weights is None:
        named = dict(federated.task.model.named_parameters())
        weights = federated.task.layout.flatten(named)
    current = server.start(weights.detach().to(federated.device)[None])
    scores = np.zeros(canaries)
    residuals = Residuals(_deviation(protection))
    for number in range(recipe.rounds):
        own = run.sending.updates(current[0], *cohorts.rows(number, clients)).cpu()
        sent = torch.stack(
            [
                update + _canary_part(hidden, number, client, recipe, clip).to(update)
                for client, update in zip(clients, own, strict=True)
            ]
        )
        info = cohorts.sample(number).info
        read, mean = _released(protection, sent, info, entropy, secret)
        for which, released in read:
            # What an attacker who knows all records can do.
            rest = released - own[list(which)].sum(0)
            products = hidden.products(number, rest.double().numpy()) * denominator / clip
            seen = np.isin(np.arange(canaries) % len(clients), which)
            scores[seen] += products[seen] / recipe.rounds
            residuals.add(released - sent[list(which)].sum(0), len(which))
        current = server.step(current, mean.to(current)[None], number)
        if not torch.isfinite(current).all():
            raise InvalidInput(
                f"the model diverged in round {number}, so that there is nothing to audit; lower "
                "the server's step."
            )
    count = count_canaries(scores, hidden.used, recipe.rounds)
    return CanaryRun(recipe.rounds, count, residuals.findings())


def _canary_part(
    canaries: Canaries, round: int, client: int, recipe: Recipe, clip: float
) -> torch.Tensor:
    """What a client's canaries add to its update [m], by the code that adds records."""
    training, which = recipe.local_training, canaries.of(client)
    total = torch.zeros(canaries.parameters)
    several = max(1, _BLOCK // canaries.parameters)
    for start in range(0, len(which), several):
        rows = canaries.rows(round, which[start : start + several])
        shares = torch.full((len(rows),), 1 / training.batch)
        gradients = torch.from_numpy(RAW * clip * rows).float()
        total += summed_records(gradients, shares, training.record_clip)
    return total


def _released(
    protection: Protection,
    sent: torch.Tensor,
    info: RoundInfo,
    entropy: Seeded | System,
    secret: object | None,
) -> tuple[list[tuple[tuple[int, ...], torch.Tensor]], torch.Tensor]:
    """What can be read of a round, as sums over clients, and the mean by which the model moves."""
    who, counts = info.participants, [1] * len(info.participants)
    single = protection.transport.server_reads == "messages"
    if isinstance(entropy, Seeded) and secret is None:
        mean = Arithmetic(protection, sent, counts, info, entropy).exact_mean()
        if not single:
            return [(who, mean * len(who))], mean
        made = [protected(protection, sent[k], k, info, entropy).values for k in who]
    else:
        result = run_round(protection, sent, counts, info, entropy=entropy, secret=secret)
        mean = result.mean
        if not single:
            return [(who, mean * len(who))], mean
        made = [seen.update for seen in observe(protection, result.transcript, Adversary.SERVER)]
    return [((k,), values) for k, values in zip(who, made, strict=True)], mean


def _deviation(protection: Protection) -> float:
    """The standard deviation that each client's noise should have."""
    return math.hypot(*(transform.scale for transform in protection.transforms))


def _check(protection: Protection, recipe: Recipe) -> None:
    training: Sequence[tuple[bool, str]] = (
        (recipe.rounds is None, "the recipe says no number of rounds"),
        (recipe.local_training.algorithm != "fedsgd", "clients take several local steps"),
        (recipe.local_training.sampling != "full", "clients draw batches"),
        (not recipe.equal_weights, "clients weigh by their records"),
        (protection.thins or protection.cancels, "not all of an update is sent as it is"),
    )
    for wrong, reason in training:
        if wrong:
            raise InvalidInput(
                f"canaries are added to gradients over all records of clients of equal weight, "
                f"and here {reason}; audit a deployment that was proved with full batches."
            )
