"""The work that tuning spreads over processes: attack some units, train once, time a round.

A job is a value: its payload depends on the job and the settings of the run alone, so that it
can be journaled under the job's key and need never be done twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch

from trilemma.errors import InvalidInput
from trilemma.estimation.playing.claims import Participation
from trilemma.federation.recipe import Recipe
from trilemma.federation.scoring import read_scores
from trilemma.federation.timing import RoundCosts
from trilemma.federation.training import History, Round
from trilemma.observations import Adversary

__all__ = [
    "AttackJob",
    "BeliefJob",
    "CostJob",
    "Diverged",
    "Job",
    "TrainJob",
    "read_attack",
    "read_costs",
    "read_training",
]


class Diverged(InvalidInput):
    """A protection under which the federation could not be trained."""


@dataclass(frozen=True)
class AttackJob:
    """Play games first .. first + count - 1 of a stream under one protection with some attacks.

    A stream is a name: games of different streams share no data, no model and no draw. `rounds`
    1 is one round that holds the record; `participation` secret: all rounds are attacked, by one
    who is not told which held it. `recipe` None: the scenario's own. `pictures` of the first
    games are kept besides, if the scenario shows records. Of a training the attacks pick after
    fewer rounds besides.
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
    recipe: Recipe | None = None
    participation: Participation = "known"

    @property
    def games(self) -> range:
        """The numbers of its games."""
        return range(self.first, self.first + self.count)

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        return self._key

    @cached_property
    def _key(self) -> tuple[str, int]:  # asked for twenty times of every job
        seen = f"{self.protection} seen by the {self.adversary.value}"
        over = "one round" if self.rounds == 1 else f"{self.rounds} rounds"
        extra = ", equal weights" * self.equal_weights + ", blind" * self.blind
        shown = f", {self.pictures} shown" if self.pictures else ""
        shown += ", participation secret" * (self.participation == "secret")
        shown += _described(self.recipe)
        names = "/".join(self.attacks)
        return (
            f"{self.stream}: {names} on {seen} over {over}, {self.count} games{extra}{shown}",
            self.first,
        )


@dataclass(frozen=True)
class TrainJob:
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
class CostJob:
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
class BeliefJob:
    """The paper's leakage of games first .. first + count - 1, by the beliefs of some attacks."""

    stream: str
    protection: str
    attacks: tuple[str, ...]
    adversary: Adversary
    rounds: int
    first: int
    count: int
    draws: int

    @property
    def games(self) -> range:
        """The numbers of its games."""
        return range(self.first, self.first + self.count)

    def key(self) -> tuple[str, int]:
        """The stage and the chunk under which a run keeps the payload."""
        seen = f"{self.protection} seen by the {self.adversary.value}"
        whose = "/".join(self.attacks)
        what = f"{self.stream}: beliefs of {whose} on {seen} over {self.rounds} rounds"
        return f"{what}, {self.count} games, {self.draws} draws", self.first


Job = AttackJob | BeliefJob | CostJob | TrainJob


def _described(recipe: Recipe | None) -> str:
    return "" if recipe is None else f"; {recipe.describe()}"


@lru_cache(maxsize=4096)  # a procedure that is replayed reads all of them again
def read_attack(payload: bytes) -> dict[str, Any]:
    """What became of the units: client, recovered and any by unit, how many failed, pictures.

    Not to be changed.
    """
    found: dict[str, Any] = json.loads(payload)
    return found


@lru_cache(maxsize=512)
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
