"""What a worker does with a job: play games, train once, time rounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Final

import torch

from trilemma.attacks import Knowledge, KnowledgeLevel, View, get
from trilemma.attacks.base import KNOWLEDGE_LEVELS, Attack
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.execution.pool.base import Joint
from trilemma.federation.recipe import Recipe
from trilemma.federation.round_timing import RoundCosts, round_costs
from trilemma.federation.training import History, train
from trilemma.game.gpu_sharing import own_scenario, patient
from trilemma.game.job_results import AttackResult, BeliefResult, Failed, Result, encode
from trilemma.game.jobs import AttackJob, BeliefJob, CostJob, Job, TrainJob
from trilemma.game.playing.attack_results import attack_result
from trilemma.game.playing.claims import Claim, checkpoints
from trilemma.game.playing.games import Arena, Game
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.game.playing.paper_leakage import paper_leakage
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied, own_recipe
from trilemma.game.scenario import Scenario, Source
from trilemma.learning.precision import short_products, whole_floats
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection

__all__ = ["JobRunner"]

_VIEWS: Final = 4  # of one game over a training, about


@dataclass(frozen=True, eq=False)
class _Shown:
    """Games, and what the observer sees of each."""

    observer: Observer
    games: list[Game]
    views: list[list[View]]


@dataclass(frozen=True)
class JobRunner:
    """Makes a worker's function: task -> payload.

    Games are of a `claim`'s candidate set, whatever their number of rounds (None: as many
    candidates as the scenario allows, up to 100), and sums of `threshold` clients (None: of all).

    Attacks of `knows` or above keep the best of `restarts`; those from below it, which know less
    than the attacker in question, make one start. Tasks of attacks that search may share a call of
    at most `together` views.
    """

    source: Source
    claim: Claim | None
    restarts: int
    steps: int
    seed: int
    knows: KnowledgeLevel = "nothing"
    together: int = 0
    threshold: int | None = None
    preload: ClassVar = ("trilemma.game.job_runner", "trilemma.learning.preload")

    def joins(self, tasks: Sequence[Job], other: Job) -> bool:
        """Whether a task's games can be attacked in one call with those of others."""
        games = [task for task in (*tasks, other) if isinstance(task, AttackJob)]
        if len(games) <= len(tasks):
            return False
        first = games[0]
        views = sum(task.count for task in games) * (1 if first.rounds == 1 else _VIEWS)
        if views > self.together or _alike(first) != _alike(games[-1]):
            return False
        return all(getattr(get(name), "searches", False) for name in first.attacks)

    def starts(self, attack: Attack) -> int:
        """How many starts an attack makes."""
        return (
            self.restarts
            if KNOWLEDGE_LEVELS.index(attack.knows) >= KNOWLEDGE_LEVELS.index(self.knows)
            else 1
        )

    def __call__(self) -> Callable[[Job], bytes]:
        own = own_scenario(self.source)

        @lru_cache(maxsize=8)
        def scenario(recipe: Recipe | None) -> Scenario:
            return own if recipe is None else applied(recipe, own)

        @lru_cache(maxsize=8)
        def arena(rounds: int, recipe: Recipe | None) -> Arena:
            if self.claim is None:
                return Arena.of(scenario(recipe), rounds=rounds)
            return Arena(scenario(recipe), replace(self.claim, rounds=rounds))

        last: dict[tuple[tuple[AttackJob, ...], KnowledgeLevel], _Shown] = {}

        def shown(tasks: Sequence[AttackJob], knows: KnowledgeLevel) -> _Shown:
            """The games of tasks as they are seen; the next attack on them finds them here."""
            key = tuple(replace(task, attacks=(), pictures=0) for task in tasks), knows
            if key not in last:
                last.clear()  # before the next are made: those of large models fill the memory
                first = tasks[0]
                last[key] = self._shown(arena(first.rounds, first.recipe), tasks, knows)
            return last[key]

        @patient
        @whole_floats(own.task.layout.size)
        def work(task: Job) -> bytes:
            return encode(result(task))

        def result(task: Job) -> Result:
            if isinstance(task, AttackJob):
                return self._played([task], shown)[0]
            if isinstance(task, BeliefJob):
                return self._believed(arena(task.rounds, None), task)
            if isinstance(task, CostJob):
                return _timed(own, scenario(task.recipe), task)
            return _trained(scenario(task.recipe), task)

        @whole_floats(own.task.layout.size)
        def together(tasks: Sequence[Job]) -> list[bytes]:
            attacks = [task for task in tasks if isinstance(task, AttackJob)]
            try:
                return [encode(item) for item in self._played(attacks, shown)]
            except torch.OutOfMemoryError:
                last.clear()
            return [work(task) for task in tasks]

        return Joint(work, together)

    def _observer(
        self, arena: Arena, task: AttackJob | BeliefJob, knows: KnowledgeLevel
    ) -> Observer:
        return Observer(
            arena,
            parse_protection(task.protection),
            task.adversary,
            knows,
            Seeded(self.seed).integer("stream", task.stream),
            steps=self.steps,
            threshold=self.threshold,
        )

    def _believed(self, arena: Arena, task: BeliefJob) -> BeliefResult:
        attacks = [get(name) for name in task.attacks]
        knows = max((attack.knows for attack in attacks), key=KNOWLEDGE_LEVELS.index)
        observer = self._observer(arena, task, knows)
        games = [arena.draw(number, observer.seed) for number in task.games]
        found = paper_leakage(observer, games, attacks, draws=task.draws)
        return BeliefResult(
            [game.client for game in games],
            {name: value.tolist() for name, value in found.items()},
        )

    def _shown(self, arena: Arena, tasks: Sequence[AttackJob], knows: KnowledgeLevel) -> _Shown:
        task = tasks[0]
        observer = replace(
            self._observer(arena, task, knows),
            participation=task.participation,
            recipe=task.recipe,
            crafted=task.crafted,
        )
        numbers = [number for item in tasks for number in item.games]
        games = [arena.draw(number, observer.seed) for number in numbers]
        return _Shown(observer, games, observer.views(games))

    def _played(
        self,
        tasks: Sequence[AttackJob],
        shown: Callable[[Sequence[AttackJob], KnowledgeLevel], _Shown],
    ) -> list[AttackResult]:
        """The results of tasks whose games are attacked in one call."""
        task = tasks[0]
        attacks = {name: get(name) for name in task.attacks}
        knows = max((attack.knows for attack in attacks.values()), key=KNOWLEDGE_LEVELS.index)
        # Those who know nothing see the rounds of those with public records, less the records.
        seen = shown(tasks, "public" if knows == "nothing" else knows)
        observer, games, views = seen.observer, seen.games, seen.views
        if knows == "nothing":
            views = [[replace(view, knowledge=Knowledge()) for view in own] for own in views]
        start = Seeded(observer.seed).integer("attack")  # a game's own draws go by its number
        found = {
            name: play(
                *(observer, games, views, attack),
                restarts=self.starts(attack),
                seed=start,
                checkpoints=checkpoints(task.rounds),
            )
            for name, attack in attacks.items()
        }
        ends = itertools.accumulate(item.count for item in tasks)
        results = []
        for item, end in zip(tasks, ends, strict=True):
            own = slice(end - item.count, end)
            guesses = {name: made.of(own) for name, made in found.items()}
            shares = observer.arena, games[own], views[own], guesses
            results.append(attack_result(*shares, pictures=item.pictures))
        return results


def _alike(task: AttackJob) -> AttackJob:
    """The same for all tasks that differ in their games' numbers alone."""
    return replace(task, first=0, count=0, pictures=0)


def _timed(own: Scenario, scenario: Scenario, task: CostJob) -> RoundCosts | Failed:
    protection, recipe = parse_protection(task.protection), task.recipe
    try:
        found = round_costs(
            scenario,
            protection,
            recipe or own_recipe(scenario),
            rounds=task.rounds,
            clients_per_round=scenario.cohort,
        )
    except (InvalidInput, ProtocolViolation) as error:
        if protection == Protection():
            raise
        return Failed(str(error))
    if recipe is not None:  # clipping single records takes longer than their mean
        plain = round_costs(
            own,
            Protection(),
            own_recipe(own),
            rounds=task.rounds,
            clients_per_round=own.cohort,
        )
        found = RoundCosts(plain.without, found.within)
    return found


@short_products()
def _trained(scenario: Scenario, task: TrainJob) -> History | Failed:
    protection, recipe = parse_protection(task.protection), task.recipe or own_recipe(scenario)
    try:
        (history,) = train(
            scenario,
            protection,
            replace(recipe, rounds=task.rounds),
            seeds=(task.seed,),
            weights=fresh_weights(scenario, [task.seed]),
            public=scenario.public_records,
            clients_per_round=scenario.cohort,
            metric=scenario.metric,
            real_rounds=0,
        )
    except (InvalidInput, ProtocolViolation) as error:
        if protection == Protection() and task.recipe is None:
            raise
        # a fact about the protection, not about the input or a client
        lost = "a training under it diverged: what a client would send is not finite."
        return Failed(lost if isinstance(error, ProtocolViolation) else str(error))
    return history
