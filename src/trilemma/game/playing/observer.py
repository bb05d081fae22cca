"""What an adversary sees of a game: of one round at a prepared model, or of a whole training.

Trainings of many games run side by side under the very protection that is judged, from fresh
weights, with the federation's own sampling and weights; only the rounds that hold the target
record are handed to the attacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from trilemma.attacks import Knowledge, KnowledgeLevel, View
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.attacks.crafted import craft
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.round import Answers, Rounds
from trilemma.federation.server import Server
from trilemma.game.playing.games import Arena, Batches, Game, stacked
from trilemma.game.prepared_models import fresh_weights, prepare_models
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.learning.precision import drawn_on
from trilemma.observations import Adversary, Observation
from trilemma.records.records import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.federation.cohort_updates import Sending
    from trilemma.federation.recipe import Recipe
    from trilemma.game.playing.claims import Participation
    from trilemma.protection.protection import Protection

__all__ = ["Observer"]

# Records to which the distribution of the others is fitted: all public ones, or so many where
# those are fewer. Of more than _MOST a game takes seconds, and tenfold of twice as many.
_POPULATION: Final = 400
_MOST: Final = 2_500


@dataclass(frozen=True, eq=False)
class _Training:
    """One game over a training: which rounds hold its target, and what its draws come from.

    Nothing is trained after the `last` round that the adversary looks at.
    """

    game: Game
    draw: np.random.Generator
    held: list[bool | None]
    noise: torch.Generator
    last: int

    def batches(self, arena: Arena, round: int) -> Batches:
        """The batches of the next round; they are drawn one after the other."""
        return arena.batches(self.game, self.draw, holds=self.held[round])

    def noise_of(self, round: int) -> torch.Generator | None:
        """What the noise of a round is drawn from; None once the training has ended."""
        return self.noise if round < self.last else None


@dataclass(frozen=True, eq=False)
class Observer:
    """An adversary of games: what it reads under a protection, and what it knows.

    `steps` of SGD prepare the models at which single rounds are observed. Sums are of `threshold`
    clients, the fewest that a round may end with (None: of the whole cohort), the target record's
    among them. Participation is granted, or secret: then all rounds of a training are attacked.
    `recipe` is the server's part of a training (None: the scenario's own); the clients' part is in
    the scenario. A malicious server hands out `crafted` weights of a kind (`attacks.crafted`) in
    the rounds that it attacks, and keeps its model as it was.
    """

    arena: Arena
    protection: Protection
    adversary: Adversary
    knows: KnowledgeLevel
    seed: int
    steps: int = 20
    population: int = _POPULATION
    threshold: int | None = None
    participation: Participation = "known"
    recipe: Recipe | None = None
    crafted: str | None = None

    def __post_init__(self) -> None:
        if self.participation == "secret" and self.knows != "rest":
            raise InvalidInput(
                f"rounds whose participation is secret are attacked by those who know the rest, "
                f"not {self.knows!r}; grant participation, or attack with knows='rest'."
            )
        sampling = self.arena.scenario.local_training.sampling
        if self.participation == "secret" and sampling != "poisson":
            raise InvalidInput(
                f"who knows the rest counts it, so that batches of sampling={sampling!r} keep no "
                "participation secret; use sampling='poisson', or grant participation."
            )

    def views(self, games: Sequence[Game]) -> list[list[View]]:
        """The views of each game: one for each round that holds its record, one at least.

        Where participation is secret there is one for every round that its client takes part in.
        """
        return self._one_round(games) if self.arena.claim.rounds == 1 else self._training(games)

    @property
    def _counts(self) -> NDArray[np.int64]:
        """The clients' weights in the server's mean."""
        sizes = self.arena.sizes
        equal = self.recipe is not None and self.recipe.equal_weights
        return np.ones_like(sizes) if equal else sizes

    def _one_round(self, games: Sequence[Game]) -> list[list[View]]:
        numbers = [game.number for game in games]
        scenario = self.arena.scenario
        weights = prepare_models(scenario, numbers, steps=self.steps, seed=self.seed)
        weights = self._handed(weights, games, range(len(games)), 0)
        made = []
        for game in games:
            draw = Seeded(self.seed).generator("round", game.number)
            made.append(self.arena.batches(game, draw, holds=True, alone=self._reads_messages))
        _, read, _ = self._rounds(often=False).means(
            weights,
            *self._stacked(made),
            self._answering(games, made, 0, range(len(games))),
            shares=self._shares(made).to(weights),
            read=dict.fromkeys(range(len(games)), self.adversary),
            noise=[None] * len(games),
        )
        seen = zip(games, weights, made, read.values(), strict=True)
        return [[self._view(*given, round=0)] for given in seen]

    def _training(self, games: Sequence[Game]) -> list[list[View]]:
        scenario, rounds = self.arena.scenario, self.arena.claim.rounds
        recipe = self.recipe or own_recipe(scenario)
        server = Server(scenario.task, recipe, rounds, scenario.public_records)
        numbers = [game.number for game in games]
        weights = server.start(fresh_weights(scenario, numbers, seed=self.seed))
        trainings = [self._attended(game, weights) for game in games]
        views: list[list[View]] = [[] for _ in games]
        run, made = self._rounds(often=True), list[Batches]()
        for round in range(max(training.last for training in trainings)):
            # A game that shows no more goes on with the batches that it had.
            made = [
                training.batches(self.arena, round) if round < training.last else made[row]
                for row, training in enumerate(trainings)
            ]
            seen = [row for row, own in enumerate(trainings) if self._sees(own, round)]
            if round == 0 or not self.arena.everyone_joins:
                shares = self._shares(made).to(weights)
            handed = self._handed(weights, games, seen, round)
            means, read, bare = run.means(
                handed,
                *self._stacked(made),
                self._answering(games, made, round, seen),
                shares=shares,
                read=dict.fromkeys(seen, self.adversary),
                noise=[training.noise_of(round) for training in trainings],
            )
            others = self._others(run.sending, handed, made, read, bare)
            for row, observation in read.items():
                given = games[row], handed[row], made[row], observation, round
                views[row].append(self._view(*given, others.get(row)))
            if self.crafted is not None:
                means[seen] = 0.0  # of another model than the server's own
            weights = server.step(weights, means, round)
        return views

    def _attended(self, game: Game, weights: torch.Tensor) -> _Training:
        """What is drawn for one game's training, but for its batches."""
        draw = Seeded(self.seed).generator("training", game.number)
        held = self.arena.attendance(game, draw)
        where = drawn_on(weights.device, weights.shape[1])
        noise = Seeded(self.seed).torch_generator("noise", game.number, device=where)
        last = max(1 + round for round, holds in enumerate(held) if self._looks_at(holds))
        return _Training(game, draw, held, noise, last)

    def _handed(
        self, weights: torch.Tensor, games: Sequence[Game], attacked: Sequence[int], round: int
    ) -> torch.Tensor:
        """The weights [U, m] that clients get: a malicious server's own in attacked rounds."""
        if self.crafted is None or not attacked:
            return weights
        handed, public = weights.clone(), self._public.inputs
        for row in attacked:
            game, inputs = games[row], public
            if KNOWLEDGE_LEVELS.index(self.knows) >= KNOWLEDGE_LEVELS.index("candidates"):
                rolled = np.roll(game.candidate_set, -round * len(game.candidate_set) // 2)
                places = torch.from_numpy(rolled).to(public.device)
                inputs = torch.cat([self.arena.pool_there.inputs[places], public])
            draw = Seeded(self.seed).integer("crafted", game.number, round)
            task = self.arena.scenario.task
            handed[row] = craft(self.crafted, task, weights[row], inputs, draw)
        return handed

    def _others(
        self,
        sending: Sending,
        models: torch.Tensor,
        made: Sequence[Batches],
        read: Mapping[int, Observation],
        bare: Mapping[int, torch.Tensor],
    ) -> dict[int, torch.Tensor]:
        """By game what the rest makes of what was read [m]: all of it less the sought record's.

        `bare` is all of it, without noise. Empty where no attacker subtracts the rest, or an
        update is no sum over records.
        """
        training, shown = sending.training, list(bare)
        adds_up = training.algorithm == "fedsgd" and training.by_record
        if not (shown and adds_up and self.knows == "rest"):
            return {}
        here = [made[row] for row in shown]
        rows = torch.tensor([int(own.rows[own.own or 0, own.slot or 0]) for own in here])
        rows = rows[:, None, None].to(models.device)
        sought = sending.updates(models[shown], rows)[:, 0]
        there = torch.tensor([own.slot is not None for own in here]).to(sought)
        parts = sought * there[:, None]
        return {
            row: bare[row] - part * weights[0]
            for row, part in zip(shown, parts, strict=True)
            if isinstance(weights := read[row].weights, tuple)
        }

    @property
    def _reads_messages(self) -> bool:
        """Whether the adversary reads each message by itself."""
        reads = self.protection.transport.server_reads
        return self.adversary is Adversary.SERVER and reads == "messages"

    def _looks_at(self, holds: bool | None) -> bool:
        """Whether the adversary looks at a round that holds the target record, or not."""
        return bool(holds) or (self.participation == "secret" and holds is not None)

    def _sees(self, training: _Training, round: int) -> bool:
        return round < training.last and self._looks_at(training.held[round])

    @cached_property
    def _public(self) -> Records:
        """The public records on the device, once: attacks learn from them for all views."""
        return self.arena.scenario.public_records.to(self.arena.scenario.device)

    def _answers(
        self, game: Game, batches: Batches, round: int, *, seen: bool
    ) -> tuple[Answers, list[int]]:
        """Who answers in a round, the game's own client as number 0, and their places in it.

        Who reads a sum reads that of the fewest clients that the round may end with.
        """
        fewest = seen and not self._reads_messages
        order = self._summed(batches, game, round) if fewest else _order(batches)
        draws = Seeded(self.seed).child("draw", game.number, round)
        counts = self._counts[batches.clients][order].tolist()
        return Answers.measured(counts, round, draws), order.tolist()

    def _answering(
        self, games: Sequence[Game], made: Sequence[Batches], round: int, seen: Sequence[int]
    ) -> Callable[[int], tuple[Answers, list[int]]]:
        """By a game's place who answers in its round; in those that are `seen`, the fewest."""
        return lambda row: self._answers(games[row], made[row], round, seen=row in seen)

    def _rounds(self, *, often: bool) -> Rounds:
        """The rounds of the arena's clients."""
        scenario, pool = self.arena.scenario, self.arena.pool_there
        given = scenario.task, scenario.local_training, (pool.inputs, pool.labels)
        return Rounds(*given, self.protection, often=often)

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

    def _view(
        self,
        game: Game,
        weights: torch.Tensor,
        batches: Batches,
        seen: Observation,
        round: int,
        others: torch.Tensor | None = None,
    ) -> View:
        """What the adversary reads of a round that holds the target record, and what it knows."""
        scenario = self.arena.scenario
        _, order = self._answers(game, batches, round, seen=True)
        knowledge = self._knowledge(game, batches, np.array(order[: seen.clients]), others)
        return View(
            scenario.task,
            weights,
            seen,
            scenario.local_training,
            scenario.input_spec,
            knowledge,
            round,
            game.number,
        )

    def _knowledge(
        self,
        game: Game,
        batches: Batches,
        order: NDArray[np.int64],
        others: torch.Tensor | None = None,
    ) -> Knowledge:
        scenario, pool = self.arena.scenario, self.arena.pool
        device, level = scenario.device, KNOWLEDGE_LEVELS.index(self.knows)
        if level == 0:
            return Knowledge()
        public = self._public
        if level == 1:
            return Knowledge(public)
        candidate_set = pool[torch.from_numpy(game.candidate_set)].to(device)
        secret = self.participation == "secret"
        outsiders = None
        if not secret:  # who knows the rest needs no distribution of it, and one a round is a lot
            used = batches.rows[order][batches.present[order]]
            most = min(max(self.population, len(public)), _MOST)
            outsiders = self.arena.outsiders(game, used, most, self.seed).to(device)
        if level == 2:
            return Knowledge(public, candidate_set, outsiders)
        share = scenario.local_training.unit_size / float(self.arena.sizes[game.client])
        rate = share if secret else None
        rows, present, slot = batches.rows[order], batches.present[order], batches.slot
        if slot is None:  # a place for the candidates, were one of them in this round
            slot = rows.shape[1]
            rows, present = np.pad(rows, ((0, 0), (0, 1))), np.pad(present, ((0, 0), (0, 1)))
        rows = rows.copy()
        rows[0, slot] = game.candidate_set[0]  # the slot itself tells nothing
        rest = Records(
            pool.inputs[torch.from_numpy(rows.reshape(-1))],
            pool.labels[torch.from_numpy(rows.reshape(-1))],
        ).to(device)
        # A Poisson batch without padding is still of no size that others share.
        alike = bool(present.all()) and scenario.local_training.sampling == "fixed"
        there = None if alike else torch.from_numpy(present.reshape(-1)).to(device)
        return Knowledge(public, candidate_set, outsiders, rest, slot, there, rate, others)


def _order(batches: Batches) -> NDArray[np.int64]:
    """Places in the cohort, that of the target record's own client first where it takes part."""
    own = [] if batches.own is None else [batches.own]
    others = np.delete(np.arange(len(batches.clients)), own)
    return np.concatenate([np.array(own, dtype=np.int64), others])
