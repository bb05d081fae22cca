"""Games: a target record of one client, the candidates it hides among, and the batches.

Everything about a game depends on the seed and its number alone. The target is drawn before
anything is attacked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.game.playing.claims import Claim
from trilemma.records.records import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.game.scenario import Scenario

__all__ = ["Arena", "Batches", "Game", "stacked"]


@dataclass(frozen=True, eq=False)
class Game:
    """Places are rows of the pool of all clients' records.

    `candidate_set` [N] are the candidates, of which that at `target` is used. `free` [K, n] says
    which records of each client may fill batches, by their place within the client.
    """

    number: int
    client: int
    candidate_set: NDArray[np.int64]
    target: int
    free: NDArray[np.bool_]

    @property
    def sought(self) -> int:
        """The place of the target record."""
        return int(self.candidate_set[self.target])


@dataclass(frozen=True, eq=False)
class Batches:
    """What the clients of one round train on.

    `clients` [K] is the round's cohort, in rising order; `own` is the place in it of the target
    record's client, None where it does not take part. `rows` [K, B] are places in the pool;
    `present` [K, B] is false where a row only pads. `slot` is where the target record stands in
    its client's row, None where the round does not hold it.
    """

    clients: NDArray[np.int64]
    own: int | None
    rows: NDArray[np.int64]
    present: NDArray[np.bool_]
    slot: int | None

    @cached_property
    def whole(self) -> bool:
        """Whether no row only pads."""
        return bool(self.present.all())


@dataclass(frozen=True, eq=False)
class Arena:
    """Where the games of one claim on one scenario are drawn."""

    scenario: Scenario
    claim: Claim

    def __post_init__(self) -> None:
        training = self.scenario.local_training
        if (training.algorithm, training.sampling) == ("fedavg", "poisson"):
            raise InvalidInput(
                f"no attack knows the batches of {training.steps} Poisson steps of FedAvg, so no "
                "game is played on them; use sampling='fixed', from which a proof against anyone "
                "makes Poisson steps by itself."
            )

    @cached_property
    def pool(self) -> Records:
        """All clients' records, in the order of clients."""
        return self.scenario.pooled()

    @cached_property
    def pool_there(self) -> Records:
        """The same on the scenario's device."""
        return self.scenario.pooled_there()

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Records of each client [K]."""
        return np.array([len(record) for record in self.scenario.records])

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each client's records start in the pool [K]."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    @property
    def everyone_joins(self) -> bool:
        """Whether all clients take part in every round."""
        return self.scenario.per_round == len(self.sizes)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """A number for each record of the pool; exact copies share theirs."""
        return self.scenario.kinds

    @cached_property
    def _copies(self) -> int:
        """Records that are exact copies of others."""
        return len(self.pool) - len(np.unique(self.kinds))

    def copied(
        self, rows: NDArray[np.int64], among: NDArray[np.int64] | None = None
    ) -> NDArray[np.bool_]:
        """Which records of the pool, or `among` its rows, are these rows or copies of them."""
        taken = np.zeros(self._distinct, dtype=bool)
        taken[self.kinds[rows]] = True
        return taken[self.kinds if among is None else self.kinds[among]]

    @cached_property
    def _distinct(self) -> int:
        """How many kinds there are."""
        return int(self.kinds.max()) + 1

    @classmethod
    def of(cls, scenario: Scenario, *, rounds: int, candidates: int | None = None) -> Arena:
        """The games of the largest candidate set that the scenario allows."""
        ends = np.cumsum([len(record) for record in scenario.records])[:-1]
        distinct = [len(np.unique(part)) for part in np.split(scenario.kinds, ends)]
        training = scenario.local_training
        unit = (
            max(map(len, scenario.records)) if training.sampling == "full" else training.unit_size
        )
        return cls(scenario, Claim.of(distinct, unit, rounds=rounds, candidates=candidates))

    def draw(self, number: int, seed: int) -> Game:
        """The game with this number: its client is drawn at random, and so is all else."""
        draw = Seeded(seed).generator("game", number)
        members = [k for k in range(len(self.sizes)) if k not in self.claim.apart]
        client = members[int(draw.integers(len(members)))]
        inserted = self.claim.inserted
        candidate_set = draw.permutation(self._eligible(None if inserted else client))
        candidate_set = candidate_set[: self.claim.candidates]
        target = int(draw.integers(len(candidate_set)))
        free = self._records.copy()
        for k in range(len(self.sizes)) if inserted else (client,):
            free[k, : self.sizes[k]] = ~self.copied(candidate_set, self._rows(k))
        if inserted and free[client].sum() == self.sizes[client]:
            free[client, draw.integers(self.sizes[client])] = False  # the record it stands for
        return Game(number, client, candidate_set, target, free)

    @cached_property
    def _records(self) -> NDArray[np.bool_]:
        """Where each client has records [K, n]."""
        return np.arange(int(self.sizes.max())) < self.sizes[:, None]

    def _eligible(self, client: int | None) -> NDArray[np.int64]:
        """The rows of a client (None: of all), of exact copies the first alone."""
        if client not in self._eligible_rows:
            own = np.arange(len(self.pool)) if client is None else self._rows(client)
            _, first = np.unique(self.kinds[own], return_index=True)
            self._eligible_rows[client] = own[first]
        return self._eligible_rows[client]

    @cached_property
    def _eligible_rows(self) -> dict[int | None, NDArray[np.int64]]:
        """By client, kept from game to game."""
        return {}

    def _rows(self, client: int) -> NDArray[np.int64]:
        start = int(self.starts[client])
        return np.arange(start, start + int(self.sizes[client]))

    def attendance(self, game: Game, draw: np.random.Generator) -> list[bool | None]:
        """Whether each round of the claim holds the target record; None: its client stays out.

        A round has the client in its cohort with probability c = cohort / clients, and then the
        record in the client's batch with probability q = S/n of its original n, so that it holds
        the record with probability r = cq, each round by itself. A claim is about a record that
        is used, hence the distribution given that at least one of the R rounds holds it:

            K ~ Bin(R, r) given K ≥ 1, and every K of the R rounds are as likely.

        Drawn as the first such round, t < R with P(t) = r (1 - r)ᵗ / (1 - (1 - r)ᴿ), and each
        later one with probability r. Of the rounds without the record the condition says nothing
        else: the client is in the cohort of each with probability c(1 - q) / (1 - r).
        """
        rounds, held_rate = self.claim.rounds, self.rate(game.client)
        first = _first(float(draw.random()), held_rate, rounds)
        drawn = draw.random((rounds, 2))
        held = drawn[:, 1] < held_rate
        held[:first], held[first] = False, True
        joins = self.scenario.per_round / len(self.sizes)
        without = (joins - held_rate) / (1 - held_rate) if held_rate < 1 else 0.0
        there = held | (drawn[:, 0] < without)
        return [bool(h) if t else None for t, h in zip(there, held, strict=True)]

    def rate(self, client: int) -> float:
        """How likely a round is to hold a given record of the client, where that is not asked."""
        training = self.scenario.local_training
        share = 1.0 if training.sampling == "full" else training.unit_size / self.sizes[client]
        return min(1.0, float(share)) * self.scenario.per_round / len(self.sizes)

    def batches(
        self,
        game: Game,
        draw: np.random.Generator,
        *,
        holds: bool | None,
        alone: bool = False,
    ) -> Batches:
        """The batches of one round, with the target record or not; None: without its client.

        Fixed batches are filled from what is free. Where too few are free, the batch is padded.
        `alone` leaves out what the other clients of a fixed batch train on.
        """
        training = self.scenario.local_training
        clients = self._cohort(game, draw, there=holds is not None)
        if alone and training.sampling != "poisson":
            clients = clients[clients == game.client]
        keys = draw.random(game.free.shape, dtype=np.float32)[clients]
        keys[~game.free[clients]] = np.inf
        found = np.flatnonzero(clients == game.client)
        own = int(found[0]) if len(found) else None
        make = self._filled if training.sampling == "fixed" else self._joined
        return make(game, draw, clients, keys, own, holds=bool(holds))

    def _filled(
        self,
        game: Game,
        draw: np.random.Generator,
        clients: NDArray[np.int64],
        keys: NDArray[np.float32],
        own: int | None,
        *,
        holds: bool,
    ) -> Batches:
        """Batches of the lowest keys [K, n], the target record put into its client's."""
        size = min(self.scenario.local_training.unit_size, keys.shape[1])
        places = np.argpartition(keys, size - 1, axis=1)[:, :size]
        present = game.free[clients[:, None], places]
        rows, slot = places + self.starts[clients, None], None
        if holds and own is not None:
            empty = np.flatnonzero(~present[own])
            slot = int(empty[0]) if len(empty) else int(draw.integers(rows.shape[1]))
            rows[own, slot], present[own, slot] = game.sought, True
        return Batches(clients, own, rows, present, slot)

    def _cohort(self, game: Game, draw: np.random.Generator, *, there: bool) -> NDArray[np.int64]:
        """The clients of a round, evenly drawn, with the game's own or without it."""
        everyone, size = np.arange(len(self.sizes)), self.scenario.per_round
        if self.everyone_joins:
            return everyone
        others = draw.choice(np.delete(everyone, game.client), size - there, replace=False)
        return np.sort(np.append(others, game.client) if there else others)

    def _joined(
        self,
        game: Game,
        draw: np.random.Generator,
        clients: NDArray[np.int64],
        keys: NDArray[np.float32],
        own: int | None,
        *,
        holds: bool,
    ) -> Batches:
        """Each record joins by its key [K, n], in full batches all; padded to the longest."""
        training, rates = self.scenario.local_training, np.ones(len(clients))
        if training.sampling == "poisson":
            rates = training.unit_size / self.sizes[clients]
        joins = zip(keys < rates[:, None], self.starts[clients], strict=True)
        chosen, slot = [np.flatnonzero(taken) + start for taken, start in joins], None
        if holds and own is not None:
            slot = int(draw.integers(len(chosen[own]) + 1))
            chosen[own] = np.insert(chosen[own], slot, game.sought)
        rows = np.zeros((len(chosen), max(1, *map(len, chosen))), dtype=np.int64)
        present = np.zeros(rows.shape, dtype=bool)
        for k, places in enumerate(chosen):
            rows[k, : len(places)], present[k, : len(places)] = places, True
        return Batches(clients, own, rows, present, slot)

    def outsiders(self, game: Game, used: NDArray[np.int64], most: int, seed: int) -> Records:
        """Records besides the game's own, to which the distribution of the others may be fitted.

        The public records and the clients' records outside candidate set and `used`, as many in
        every game: at most `most`, and no more than are left when batches are twice their usual
        size.
        """
        draw = Seeded(seed).generator("outsiders", game.number)
        public = self.scenario.public_records
        lent = len(game.candidate_set) + self._copies
        lent += 2 * len(self.sizes) * self.scenario.local_training.unit_size
        count = min(most, len(public) + max(0, len(self.pool) - lent))
        outside = ~self.copied(np.concatenate([game.candidate_set, used]))
        rows = draw.permutation(np.flatnonzero(outside))
        chosen = torch.from_numpy(draw.permutation(len(public))[:count])
        own, pool = torch.from_numpy(rows[: count - len(chosen)]), self.pool
        return Records(
            torch.cat([public.inputs.index_select(0, chosen), pool.inputs.index_select(0, own)]),
            torch.cat([public.labels.index_select(0, chosen), pool.labels.index_select(0, own)]),
        )


def _first(uniform: float, rate: float, rounds: int) -> int:
    """The first success of independent trials, given that there is one among so many.

    By inversion of P(first < t) = (1 - (1 - r)ᵗ) / (1 - (1 - r)ᴿ).

    >>> [_first(uniform, 0.5, 3) for uniform in (0.0, 0.57, 0.58, 0.86, 0.999)]
    [0, 0, 1, 2, 2]
    """
    if rate >= 1:
        return 0
    some = -math.expm1(rounds * math.log1p(-rate))
    return min(rounds - 1, int(math.log1p(-uniform * some) / math.log1p(-rate)))


def stacked(made: Sequence[Batches]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows [U, K, B] of batches side by side, and which do not pad; None where none does."""
    width = max(item.rows.shape[1] for item in made)
    rows = torch.from_numpy(np.array([_padded(item.rows, width) for item in made]))
    if all(item.whole and item.rows.shape[1] == width for item in made):
        return rows, None
    return rows, torch.from_numpy(np.array([_padded(item.present, width) for item in made]))


def _padded(rows: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """Rows [K, B] with zeros added up to `width`."""
    short = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, short))) if short else rows
