"""What an adversary sees of a game: of one round at a prepared model, or of a whole training.

Trainings of many games run side by side under the very protection that is judged, from fresh
weights, with the federation's own sampling and weights; only the rounds that hold the tagged
record are handed to the attacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from trilemma.attacks import Knowledge, Rung, View
from trilemma.attacks.base import RUNGS
from trilemma.attacks.crafted import craft
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.cohort_updates import Sending
from trilemma.federation.server import Server
from trilemma.game.playing.games import Arena, Batches, Game, stacked
from trilemma.game.prepared_models import fresh_weights, prepare_models
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.learning.precision import drawn_on
from trilemma.observations import Adversary
from trilemma.protection.adversary_view import observe_updates, summed
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.randomization import Randomization
from trilemma.records.records import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.federation.recipe import Recipe
    from trilemma.game.playing.claims import Participation
    from trilemma.protection.protection import Protection

__all__ = ["Observer"]

# Records on which the law of the others is fitted: all public ones, or so many where those are
# fewer. Of more than _MOST a game takes seconds, and tenfold of twice as many.
_POPULATION: Final = 400
_MOST: Final = 2_500


@dataclass(frozen=True, eq=False)
class Observer:
    """An adversary of games: what it reads under a protection, and what it knows (its rung).

    `steps` of SGD prepare the models at which single rounds are observed. `weighting` says how
    the server weighs clients in its mean. `blind` puts a record from outside the line-up where
    the tagged one should be: a control in which nothing can be found. Sums are of `threshold`
    clients, the fewest that a round may end with (None: of the whole cohort), the tagged record's
    among them. Participation is granted, or secret: then all rounds of a training are attacked.
    `recipe` is the server's part of a training (None: the scenario's own); the clients' part is in
    the scenario. A malicious server hands out `crafted` weights of a kind (`attacks.crafted`) in
    the rounds that it attacks, and keeps its model as it was.
    """

    arena: Arena
    protection: Protection
    adversary: Adversary
    rung: Rung
    seed: int
    steps: int = 20
    equal_weights: bool = False
    blind: bool = False
    population: int = _POPULATION
    threshold: int | None = None
    participation: Participation = "known"
    recipe: Recipe | None = None
    crafted: str | None = None

    def __post_init__(self) -> None:
        if self.participation == "secret" and self.rung != "rest":
            raise InvalidInput(
                f"rounds whose participation is secret are attacked by those who know the rest, "
                f"not {self.rung!r}; grant participation, or climb to the rung 'rest'."
            )
        sampling = self.arena.scenario.local_training.sampling
        if self.participation == "secret" and sampling != "poisson":
            raise InvalidInput(
                f"who knows the rest counts it, so that batches of sampling={sampling!r} keep no "
                "participation secret; use sampling='poisson', or grant participation."
            )

    def views(self, games: Sequence[Game]) -> list[list[View]]:
        """The views of each game: one for each round that holds its record, perhaps none.

        Where participation is secret there is one for every round that its client takes part in.
        """
        return self._one_round(games) if self.arena.claim.rounds == 1 else self._training(games)

    @property
    def _counts(self) -> NDArray[np.int64]:
        """The clients' weights in the server's mean."""
        sizes = self.arena.sizes
        return np.ones_like(sizes) if self.equal_weights else sizes

    def _one_round(self, games: Sequence[Game]) -> list[list[View]]:
        numbers = [game.number for game in games]
        scenario = self.arena.scenario
        weights = prepare_models(scenario, numbers, steps=self.steps, seed=self.seed)
        weights = self._handed(weights, games, [True] * len(games), 0)
        made = []
        for game in games:
            draw = Seeded(self.seed).generator("round", game.number)
            batches = self.arena.batches(game, draw, holds=True, alone=self._reads_messages)
            made.append(self._swapped(batches, game))
        updates = self._sending(often=False).updates(weights, *self._stacked(made))
        return [
            [self._view(*each, round=0)]
            for each in zip(games, weights, made, updates, strict=True)
        ]

    def _training(self, games: Sequence[Game]) -> list[list[View]]:
        scenario, rounds = self.arena.scenario, self.arena.claim.rounds
        recipe = self.recipe or own_recipe(scenario)
        server = Server(scenario.task, recipe, rounds, scenario.public_records)
        draws = [Seeded(self.seed).generator("training", game.number) for game in games]
        attended = [self.arena.attendance(*each) for each in zip(games, draws, strict=True)]
        last = [self._last_seen(each) for each in attended]
        views: list[list[View]] = [[] for _ in games]
        # Nothing is trained for a game that shows nothing, or after the last that is shown.
        played = [place for place, each in enumerate(last) if each]
        if not played:
            return views
        numbers = [games[place].number for place in played]
        weights = server.start(fresh_weights(scenario, numbers, seed=self.seed))
        where = drawn_on(weights.device, weights.shape[1])
        noise = [
            Seeded(self.seed).torch_generator("noise", number, device=where) for number in numbers
        ]
        drawn = [self.arena.rounds(games[p], draws[p], attended[p][: last[p]]) for p in played]
        sending, made = self._sending(often=True), list[Batches]()
        for round in range(max(last)):
            # A game that shows no more goes on with the batches that it had.
            made = [
                self._swapped(next(own), games[p]) if round < last[p] else made[row]
                for row, (p, own) in enumerate(zip(played, drawn, strict=True))
            ]
            seen = [round < last[p] and self._sees(attended[p][round]) for p in played]
            if round == 0 or not self.arena.everyone_joins:
                shares = self._shares(made).to(weights)
            drawing = [
                draw if round < last[p] else None for p, draw in zip(played, noise, strict=True)
            ]
            handed = self._handed(weights, [games[p] for p in played], seen, round)
            means, sent = self._sent(sending, handed, made, shares, seen, drawing)
            for row, updates in sent.items():
                game, batches = games[played[row]], made[row]
                if seen[row]:
                    view = self._view(game, handed[row], batches, updates, round)
                    views[played[row]].append(view)
                if seen[row] and self._sees_mean:
                    means[row] = view.observation.update
                else:
                    means[row] = self._mean(updates, game, batches, round)
            if self.crafted is not None:
                means[torch.tensor(seen)] = 0.0  # of another model than the server's own
            weights = server.step(weights, means, round)
        return views

    def _handed(
        self, weights: torch.Tensor, games: Sequence[Game], attacked: Sequence[bool], round: int
    ) -> torch.Tensor:
        """The weights [U, m] that clients get: a malicious server's own in attacked rounds."""
        if self.crafted is None or not any(attacked):
            return weights
        handed, public = weights.clone(), self._public.inputs
        for row, game in enumerate(games):
            if attacked[row]:
                inputs = public
                if RUNGS.index(self.rung) >= RUNGS.index("candidates"):
                    candidates = np.roll(game.line_up, -round * len(game.line_up) // 2)
                    own = self.arena.pool_there.inputs[
                        torch.from_numpy(candidates).to(public.device)
                    ]
                    inputs = torch.cat([own, public])
                draw = Seeded(self.seed).integer("crafted", game.number, round)
                handed[row] = craft(
                    self.crafted, self.arena.scenario.task, weights[row], inputs, draw
                )
        return handed

    @property
    def _sees_mean(self) -> bool:
        """Whether what is seen of a round is the very mean by which the model moves on."""
        whole = _added_variance(self.protection) is not None
        sums = self.protection.transport.server_reads == "sum"
        return whole and sums and self.adversary is Adversary.SERVER

    @property
    def _reads_messages(self) -> bool:
        """Whether the adversary reads each message by itself."""
        reads = self.protection.transport.server_reads
        return self.adversary is Adversary.SERVER and reads == "messages"

    def _sees(self, holds: bool | None) -> bool:
        """Whether the adversary looks at a round in which the tagged record stands so."""
        return bool(holds) or (self.participation == "secret" and holds is not None)

    def _last_seen(self, attended: Sequence[bool | None]) -> int:
        """How many rounds there are up to the last that the adversary looks at."""
        return max(
            (1 + each for each, holds in enumerate(attended) if self._sees(holds)), default=0
        )

    def _swapped(self, batches: Batches, game: Game) -> Batches:
        """In a blind control, one record from outside the line-up in the tagged one's place."""
        if not self.blind or batches.slot is None:
            return batches
        outside = np.flatnonzero(~self.arena.copied(game.line_up))
        rows = batches.rows.copy()
        stranger = Seeded(self.seed).generator("stranger", game.number).choice(outside)
        rows[batches.own, batches.slot] = stranger
        return replace(batches, rows=rows)

    @cached_property
    def _public(self) -> Records:
        """The public records on the device, once: attacks learn from them for all views."""
        return self.arena.scenario.public_records.to(self.arena.scenario.device)

    def _round_info(self, game: Game, clients: int, round: int) -> tuple[Seeded, RoundInfo]:
        draws = Seeded(self.seed).child("draw", game.number, round)
        return draws, RoundInfo(
            run="measurement",
            number=round,
            participants=tuple(range(clients)),
            threshold=clients,
            mask_seed=draws.integer("mask"),
        )

    def _mean(
        self, updates: torch.Tensor, game: Game, batches: Batches, round: int
    ) -> torch.Tensor:
        """The server's mean of what the cohort sends, by the draws of `_view` for that round."""
        order, counts = self._summed(batches, game, round), self._counts[batches.clients]
        draws, info = self._round_info(game, len(order), round)
        shares = dict(enumerate((counts[order] / counts.sum()).tolist()))
        own = [updates[client] for client in order.tolist()]
        return summed(self.protection, own, shares, info, draws)

    def _sending(self, *, often: bool) -> Sending:
        """What clients compute of the arena's records."""
        scenario, pool = self.arena.scenario, self.arena.pool_there
        training = scenario.local_training
        return Sending(scenario.task, training, pool.inputs, pool.labels, often=often)

    def _stacked(self, made: Sequence[Batches]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Rows of the games' batches on the device, and who counts, if not all do."""
        rows, present = stacked(made)
        device, whole = self.arena.pool_there.inputs.device, present is None
        if whole and self.arena.scenario.local_training.sampling == "poisson":
            present = torch.ones(rows.shape)
        return rows.to(device), None if present is None else present.to(device)

    def _summed(self, batches: Batches, game: Game, round: int) -> NDArray[np.int64]:
        """Places in the cohort of those whose sum a round ends with, the game's own first."""
        order = _order(batches)
        if self.threshold is None or self.threshold >= len(order):
            return order
        draw = Seeded(self.seed).generator("survivors", game.number, round)
        first = 0 if batches.own is None else 1
        return np.concatenate([order[:first], draw.permutation(order[first:])])[: self.threshold]

    def _shares(self, made: Sequence[Batches]) -> torch.Tensor:
        """The clients' parts [U, K] in the server's mean of each game's round."""
        counts = np.stack([self._counts[batches.clients] for batches in made])
        return torch.from_numpy(counts / counts.sum(1, keepdims=True))

    def _sent(
        self,
        sending: Sending,
        weights: torch.Tensor,
        made: Sequence[Batches],
        shares: torch.Tensor,
        seen: Sequence[bool],
        draws: Sequence[torch.Generator | None],
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """The server's means [U, m], and by game what its clients send [K, m] where it is needed.

        Needed are the games seen, whose means are those of the views' own draws; and all of them
        where clients' parts must be told apart. Otherwise noise is all that is added, and the sum
        of independent Gaussians is drawn as one (by None: left out, as the game shows no more).
        """
        variance, (rows, present) = _added_variance(self.protection), self._stacked(made)
        if variance is None:
            updates = sending.updates(weights, rows, present)
            going = [row for row, draw in enumerate(draws) if draw is not None]
            return torch.zeros_like(weights), {row: updates[row] for row in going}
        shown = [place for place, each in enumerate(seen) if each]
        means = sending.means(weights, rows, shares, present)
        if means is None:
            updates = sending.updates(weights, rows, present)
            means, updates = torch.einsum("uk,ukm->um", shares, updates), updates[shown]
        elif shown:
            own = self._stacked([made[place] for place in shown])
            updates = sending.updates(weights[shown], *own)
        scales = (variance * shares.square().sum(1)).sqrt().tolist()
        for mean, scale, draw in zip(means, scales, draws, strict=True):
            if scale and draw is not None:
                noise = torch.randn(
                    mean.shape, generator=draw, dtype=mean.dtype, device=draw.device
                )
                mean.add_(noise.to(mean.device), alpha=scale)
        return means, dict(zip(shown, updates, strict=True)) if shown else {}

    def _view(
        self,
        game: Game,
        weights: torch.Tensor,
        batches: Batches,
        updates: torch.Tensor,
        round: int,
    ) -> View:
        """What the adversary reads of a round that holds the tagged record, and what it knows."""
        scenario, order = self.arena.scenario, self._summed(batches, game, round)
        if self._reads_messages:
            order = order[:1]
        draws, info = self._round_info(game, len(order), round)
        seen = observe_updates(
            self.protection,
            torch.stack([updates[place] for place in order.tolist()]),  # not to hold all others
            self._counts[batches.clients][order].tolist(),
            self.adversary,
            entropy=draws,
            round=info,
            curious=len(order) - 1,
        )
        knowledge = self._knowledge(game, batches, order[: seen[0].clients])
        return View(
            scenario.task,
            weights,
            seen[0],
            scenario.local_training,
            scenario.input_spec,
            knowledge,
            round,
            game.number,
        )

    def _knowledge(self, game: Game, batches: Batches, order: NDArray[np.int64]) -> Knowledge:
        scenario, pool, level = self.arena.scenario, self.arena.pool, RUNGS.index(self.rung)
        device = scenario.device
        if level == 0:
            return Knowledge()
        public = self._public
        if level == 1:
            return Knowledge(public)
        line_up = pool[torch.from_numpy(game.line_up)].to(device)
        secret = self.participation == "secret"
        outsiders = None
        if not secret:  # who knows the rest needs no law of it, and one a round is a lot
            used = batches.rows[order][batches.present[order]]
            most = min(max(self.population, len(public)), _MOST)
            outsiders = self.arena.outsiders(game, used, most, self.seed).to(device)
        if level == 2:
            return Knowledge(public, line_up, outsiders)
        rows, present, slot = batches.rows[order], batches.present[order], batches.slot
        if slot is None:  # a place for the candidates, were one of them in this round
            slot = rows.shape[1]
            rows, present = np.pad(rows, ((0, 0), (0, 1))), np.pad(present, ((0, 0), (0, 1)))
        rows = rows.copy()
        rows[0, slot] = game.line_up[0]  # the slot itself tells nothing
        rest = Records(
            pool.inputs[torch.from_numpy(rows.reshape(-1))],
            pool.labels[torch.from_numpy(rows.reshape(-1))],
        ).to(device)
        # A Poisson batch without padding is still of no size that others share.
        alike = bool(present.all()) and scenario.local_training.sampling == "fixed"
        there = None if alike else torch.from_numpy(present.reshape(-1)).to(device)
        share = scenario.local_training.unit_size / float(self.arena.sizes[game.client])
        rate = share if secret else None
        return Knowledge(public, line_up, outsiders, rest, slot, there, rate)


def _order(batches: Batches) -> NDArray[np.int64]:
    """Places in the cohort, that of the tagged record's own client first where it takes part."""
    own = [] if batches.own is None else [batches.own]
    others = np.delete(np.arange(len(batches.clients)), own)
    return np.concatenate([np.array(own, dtype=np.int64), others])


def _added_variance(protection: Protection) -> float | None:
    """The variance of the noise where that is all a protection adds, 0 for none; else None."""
    if not protection.transforms:
        return 0.0
    first, *others = protection.transforms
    alone = isinstance(first, Randomization) and first.clip is None and not others
    return first.variance if isinstance(first, Randomization) and alone else None
