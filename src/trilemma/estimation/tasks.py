"""The work that tuning spreads over processes: attack some units, train once, time a round.

A task is a value: its payload depends on the task and the settings of the run alone, so that it
can be journaled under the task's key and need never be done twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from trilemma.attacks import Rung, get
from trilemma.attacks.base import RUNGS
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.estimation.claims import Participation
from trilemma.estimation.games import Arena, Game
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.paper_leakage import paper_leakage
from trilemma.estimation.picks import Picks, play
from trilemma.estimation.recipes import Recipe
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.sights import Observer
from trilemma.estimation.units import Source
from trilemma.federation.scoring import read_scores, write_scores
from trilemma.federation.timing import RoundCosts, round_costs
from trilemma.federation.training import History, Round, train
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection

__all__ = [
    "AttackTask",
    "BeliefTask",
    "Bench",
    "CostTask",
    "Diverged",
    "Task",
    "TrainTask",
    "read_attack",
    "read_costs",
    "read_training",
]


class Diverged(InvalidInput):
    """A protection under which the federation could not be trained."""


@dataclass(frozen=True)
class AttackTask:
    """Play games first .. first + count - 1 of a stream under one protection with some attacks.

    A stream is a name: games of different streams share no data, no model and no draw. `rounds`
    1 is one round that holds the record; `participation` secret: all rounds are attacked, by one
    who is not told which held it. `recipe` None: the scenario's own. `pictures` of the first
    games are kept besides, if the scenario shows records; after `checkpoints` rounds the attacks
    pick besides.
    """

    stream: str
    protection: str
    attacks: tuple[str, ...]
    adversary: Adversary
    rounds: int
    first: int
    count: int
    equal_weights: bool = False
    blind: bool = False
    pictures: int = 0
    checkpoints: tuple[int, ...] = ()
    recipe: Recipe | None = None
    participation: Participation = "known"

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        seen = f"{self.protection} seen by the {self.adversary.value}"
        over = "one round" if self.rounds == 1 else f"{self.rounds} rounds"
        extra = ", equal weights" * self.equal_weights + ", blind" * self.blind
        shown = f", {self.pictures} shown" if self.pictures else ""
        shown += f", after {self.checkpoints}" if self.checkpoints else ""
        shown += ", participation secret" * (self.participation == "secret")
        shown += _described(self.recipe)
        names = "/".join(self.attacks)
        return (
            f"{self.stream}: {names} on {seen} over {over}, {self.count} games{extra}{shown}",
            self.first,
        )


@dataclass(frozen=True)
class TrainTask:
    """Train from a seed under a protection, to measure utility.

    `recipe` None: the scenario's own way, judged on the test set.
    """

    protection: str
    seed: int
    rounds: int
    recipe: Recipe | None = None

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        return f"train {self.rounds} rounds, {self.protection}{_described(self.recipe)}", self.seed


@dataclass(frozen=True)
class CostTask:
    """Run real rounds with and without a protection, to measure bits and seconds.

    Those with protection follow the `recipe` (None: the scenario's own).
    """

    protection: str
    rounds: int
    recipe: Recipe | None = None

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        return f"time {self.rounds} rounds, {self.protection}{_described(self.recipe)}", 0


@dataclass(frozen=True)
class BeliefTask:
    """The paper's leakage of games first .. first + count - 1, by beliefs of one attack."""

    stream: str
    protection: str
    attack: str
    adversary: Adversary
    rounds: int
    first: int
    count: int
    draws: int

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        seen = f"{self.protection} seen by the {self.adversary.value}"
        what = f"{self.stream}: beliefs of {self.attack} on {seen} over {self.rounds} rounds"
        return f"{what}, {self.count} games, {self.draws} draws", self.first


Task = AttackTask | BeliefTask | CostTask | TrainTask


def _described(recipe: Recipe | None) -> str:
    return "" if recipe is None else f"; {recipe.describe()}"


@dataclass(frozen=True)
class Bench:
    """Makes a worker's function: task -> payload.

    `line_up` candidates are asked for (None: as many as the scenario allows, up to 100).
    """

    source: Source
    line_up: int | None
    restarts: int
    steps: int
    seed: int

    def __call__(self) -> Callable[[Task], bytes]:
        own = self.source if isinstance(self.source, Scenario) else self.source()

        @lru_cache(maxsize=8)
        def scenario(recipe: Recipe | None) -> Scenario:
            return own if recipe is None else recipe.applied(own)

        @lru_cache(maxsize=8)
        def arena(rounds: int, recipe: Recipe | None) -> Arena:
            return Arena.of(scenario(recipe), rounds=rounds, line_up=self.line_up)

        def work(task: Task) -> bytes:
            if isinstance(task, AttackTask):
                return _write(self._played(arena(task.rounds, task.recipe), task))
            if isinstance(task, BeliefTask):
                return _write(self._believed(arena(task.rounds, None), task))
            if isinstance(task, CostTask):
                return _write(_timed(own, scenario(task.recipe), task))
            return _write(_trained(scenario(task.recipe), task))

        return work

    def _observer(self, arena: Arena, task: AttackTask | BeliefTask, rung: Rung) -> Observer:
        return Observer(
            arena,
            parse_protection(task.protection),
            task.adversary,
            rung,
            Seeded(self.seed).integer("stream", task.stream),
            steps=self.steps,
        )

    def _believed(self, arena: Arena, task: BeliefTask) -> dict[str, Any]:
        attack = get(task.attack)
        observer = self._observer(arena, task, attack.rung)
        numbers = range(task.first, task.first + task.count)
        games = [arena.draw(number, observer.seed) for number in numbers]
        found = paper_leakage(observer, games, attack, draws=task.draws)
        return {"client": [game.client for game in games], "leakage": found.tolist()}

    def _played(self, arena: Arena, task: AttackTask) -> dict[str, Any]:
        attacks = {name: get(name) for name in task.attacks}
        rung = max((attack.rung for attack in attacks.values()), key=RUNGS.index)
        equal = task.recipe is not None and task.recipe.equal_weights
        observer = replace(
            self._observer(arena, task, rung),
            equal_weights=task.equal_weights or equal,
            blind=task.blind,
            participation=task.participation,
        )
        seed = observer.seed
        games = [arena.draw(n, seed) for n in range(task.first, task.first + task.count)]
        views = observer.views(games)
        start = Seeded(seed).integer("attack", task.first)
        found = {
            name: play(
                *(observer, games, views, attack),
                restarts=self.restarts,
                seed=start,
                checkpoints=task.checkpoints,
            )
            for name, attack in attacks.items()
        }
        counts: dict[str, Any] = {
            "client": [game.client for game in games],
            "rounds": [len(each) for each in views],
            "correct": {name: each.correct.tolist() for name, each in found.items()},
            "failed": {name: int(each.failed.sum()) for name, each in found.items()},
        }
        if task.checkpoints:
            counts["after"] = {
                name: {str(t): right.tolist() for t, right in each.after.items()}
                for name, each in found.items()
            }
        if task.pictures and arena.scenario.show_records:
            counts["pictures"] = _pictures(arena, games[: task.pictures], found)
        return counts


def _pictures(arena: Arena, games: Sequence[Game], found: Mapping[str, Picks]) -> dict[str, Any]:
    """The tagged records, each attack's reconstruction and its pick, in levels 0 .. 255."""
    spec, pool = arena.scenario.input_spec, arena.pool

    def levels(inputs: torch.Tensor) -> list[list[int]]:
        shown = inputs.nan_to_num(nan=spec.low, posinf=spec.high, neginf=spec.low)
        share = (shown.clamp(spec.low, spec.high) - spec.low) / (spec.high - spec.low)
        whole: list[list[int]] = (255 * share).round().int().flatten(1).tolist()
        return whole

    def rows(places: Sequence[int]) -> torch.Tensor:
        return pool.inputs[torch.tensor(places)]

    return {
        "tagged": levels(rows([game.sought for game in games])),
        "attacks": {
            name: {
                "made": levels(each.shown[: len(games)]),
                "picked": levels(
                    rows(
                        [
                            int(game.line_up[int(each.chosen[place])])
                            for place, game in enumerate(games)
                        ]
                    )
                ),
                "correct": each.correct[: len(games)].tolist(),
            }
            for name, each in found.items()
        },
    }


def _timed(own: Scenario, scenario: Scenario, task: CostTask) -> dict[str, Any]:
    protection, recipe = parse_protection(task.protection), task.recipe
    try:
        found = round_costs(scenario, protection, rounds=task.rounds, **_rounds_of(recipe))
    except InvalidInput as error:
        if protection == Protection():
            raise
        return {"diverged": str(error)}
    if recipe is not None:  # clipping single records takes longer than their mean
        plain = round_costs(own, Protection(), rounds=task.rounds)
        found = RoundCosts(plain.without, found.within)
    return found.as_json()


def _rounds_of(recipe: Recipe | None) -> dict[str, Any]:
    if recipe is None:
        return {}
    return {"threshold": recipe.threshold, "weighted": not recipe.equal_weights}


def _trained(scenario: Scenario, task: TrainTask) -> dict[str, Any]:
    protection, recipe = parse_protection(task.protection), task.recipe
    try:
        history = train(
            scenario,
            protection,
            rounds=task.rounds,
            seed=task.seed,
            weights=fresh_weights(scenario, [task.seed])[0],
            server_lr=scenario.server_lr,
            server_decay=scenario.server_decay,
            evaluate_every=task.rounds,
            real_rounds=0,
            **_rounds_of(recipe),
        )
    except InvalidInput as error:
        if protection == Protection() and recipe is None:
            raise
        return {"diverged": str(error)}  # a fact about the protection, not about the input
    return {
        "rounds": [asdict(each) for each in history.rounds],
        "client_metrics": history.client_metrics,
        "one_by_one": history.one_by_one,
        "scores": write_scores(history.scores),
        "client_scores": [write_scores(each) for each in history.client_scores],
    }


def read_attack(payload: bytes) -> dict[str, Any]:
    """What became of the units: client, recovered and any by unit, how many failed, pictures."""
    found: dict[str, Any] = json.loads(payload)
    return found


def read_training(payload: bytes) -> History:
    """The history of a training, without its weights; raises `Diverged` where there is none."""
    found = _read(payload)
    return History(
        tuple(Round(**{**each, "clients": tuple(each["clients"])}) for each in found["rounds"]),
        torch.empty(0),
        tuple(found["client_metrics"]),
        found["one_by_one"],
        read_scores(found["scores"]),
        tuple(read_scores(each) for each in found["client_scores"]),
    )


def read_costs(payload: bytes) -> RoundCosts:
    """What rounds took; raises `Diverged` where the protection cannot run."""
    return RoundCosts.from_json(_read(payload))


def _read(payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(payload)
    if "diverged" in found:
        raise Diverged(found["diverged"])
    return found


def _write(document: dict[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
