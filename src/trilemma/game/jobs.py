"""The work that tuning spreads over processes: attack some games, train once, time rounds.

A job is a value: its result depends on the job and the settings of the run alone, so that it can
be journaled under the job's key and need never be done twice.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from trilemma.federation.recipe import Recipe
from trilemma.game.playing.claims import Participation
from trilemma.observations import Adversary
from trilemma.protection.specs import in_words

__all__ = ["AttackJob", "BeliefJob", "CostJob", "Job", "TrainJob"]


class _Keyed:
    """A job that is kept under a hash of its fields."""

    @cached_property
    def key(self) -> str:
        """Equal for equal jobs alone; no seed follows from it, as jobs share games on purpose."""
        fields = asdict(self)  # type: ignore[call-overload]  # every heir is a dataclass
        whole = json.dumps([type(self).__name__, fields], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()


@dataclass(frozen=True)
class _Games(_Keyed):
    """Games first .. first + count - 1 of a stream under one protection, with some attacks."""

    stream: str
    protection: str
    attacks: tuple[str, ...]
    adversary: Adversary
    rounds: int
    first: int
    count: int

    @property
    def games(self) -> range:
        """The numbers of its games."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class AttackJob(_Games):
    """Play games first .. first + count - 1 of a stream under one protection with some attacks.

    A stream is a name: games of different streams share no data, no model and no draw. `rounds`
    1 is one round that holds the record; `participation` secret: all rounds are attacked, without
    knowing which held it. `recipe` None: the scenario's own. `pictures` of the first games are
    kept besides, if the scenario shows records. Of a training the attacks guess after fewer rounds
    besides. A malicious server sends `crafted` weights of a kind in attacked rounds.
    """

    pictures: int = 0
    recipe: Recipe | None = None
    participation: Participation = "known"
    crafted: str | None = None

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        crafted = "" if self.crafted is None else f" and models crafted as {self.crafted}"
        over = _over(self.rounds)
        return f"{'/'.join(self.attacks)} on {in_words(self.protection)}{crafted} {over}"


@dataclass(frozen=True)
class TrainJob(_Keyed):
    """Train from a seed under a protection, to measure utility.

    `recipe` None: the scenario's own way, judged on the test set.
    """

    protection: str
    seed: int
    rounds: int
    recipe: Recipe | None = None

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        return f"training under {in_words(self.protection)} {_over(self.rounds)}"


@dataclass(frozen=True)
class CostJob(_Keyed):
    """Run real rounds with and without a protection, to measure bits and seconds.

    Those with protection follow the `recipe` (None: the scenario's own).
    """

    protection: str
    rounds: int
    recipe: Recipe | None = None

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        return f"timing rounds under {in_words(self.protection)}"


@dataclass(frozen=True)
class BeliefJob(_Games):
    """The paper's leakage of games first .. first + count - 1, by the beliefs of some attacks."""

    draws: int

    @property
    def label(self) -> str:
        """What it does, in a few words."""
        who = "/".join(self.attacks)
        return f"beliefs of {who} on {in_words(self.protection)} {_over(self.rounds)}"


Job = AttackJob | BeliefJob | CostJob | TrainJob


def _over(rounds: int) -> str:
    return "over one round" if rounds == 1 else f"over {rounds} rounds"
