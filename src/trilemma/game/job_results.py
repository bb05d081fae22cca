"""What jobs give, and how it is written in a run's journal: one text for each kind of result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

import torch

from trilemma.errors import InvalidInput
from trilemma.federation.round_timing import RoundCosts
from trilemma.federation.scoring import read_scores, write_scores
from trilemma.federation.training import History, Round

__all__ = [
    "AttackResult", "BeliefResult", "Diverged", "Failed", "Pictures", "Result", "Shown",
    "converged", "decode", "encode",
]  # fmt: skip

Kind = TypeVar("Kind")


class Diverged(InvalidInput):
    """A protection under which the federation could not be trained."""


@dataclass(frozen=True)
class Failed:
    """A training, or rounds, that a protection does not let run, and why."""

    reason: str


@dataclass(frozen=True)
class Shown:
    """What an attack makes of some target records, the candidates that it guesses, who is right.

    An image is a list of levels 0 .. 255; a row of a table or a text are cells (text, whether it
    is the target's).
    """

    made: list[list[Any]]
    guessed: list[list[Any]]
    correct: list[bool]


@dataclass(frozen=True)
class Pictures:
    """Some target records, and what is made of them by attack."""

    target: list[list[Any]]
    attacks: dict[str, Shown]


@dataclass(frozen=True)
class AttackResult:
    """Of games: the client of each, the rounds seen, right guesses by attack, how many failed.

    `after` has the right guesses after fewer rounds of a training, by attack and by rounds.
    """

    client: list[int]
    rounds: list[int]
    correct: dict[str, list[bool]]
    failed: dict[str, int]
    after: dict[str, dict[int, list[bool]]] = field(default_factory=dict)
    pictures: Pictures | None = None

    def won(self, attack: str) -> int:
        """Games that an attack won."""
        return sum(self.correct[attack])

    def won_after(self, attack: str) -> tuple[int, ...]:
        """Games won after each of a training's checkpoints, from few rounds to all."""
        return tuple(map(sum, self.after[attack].values()))


@dataclass(frozen=True)
class BeliefResult:
    """The client and, by attack, the paper's leakage of each game."""

    client: list[int]
    leakage: dict[str, list[float]]


Result = AttackResult | BeliefResult | History | RoundCosts | Failed


def converged(results: Sequence[Kind | Failed]) -> list[Kind]:
    """The results; raises `Diverged` where one of them failed."""
    whole = []
    for result in results:
        if isinstance(result, Failed):
            raise Diverged(result.reason)
        whole.append(result)
    return whole


def encode(result: Result) -> bytes:
    """A result as JSON: its kind and its fields."""
    kind = next(name for name, (made, _, _) in _KINDS.items() if isinstance(result, made))
    return json.dumps({kind: _KINDS[kind][1](result)}, allow_nan=False).encode()


def decode(payload: bytes) -> Any:
    """The result that was encoded."""
    ((kind, fields),) = json.loads(payload).items()
    return _KINDS[kind][2](fields)


def _attack_result(fields: Mapping[str, Any]) -> AttackResult:
    after = {
        name: {int(rounds): right for rounds, right in by_rounds.items()}
        for name, by_rounds in fields["after"].items()
    }
    pictures = fields["pictures"]
    if pictures is not None:
        shown = {name: Shown(**picture) for name, picture in pictures["attacks"].items()}
        pictures = Pictures(pictures["target"], shown)
    return AttackResult(**{**fields, "after": after, "pictures": pictures})


def _history_fields(history: History) -> dict[str, Any]:
    """All but the weights, which no procedure reads."""
    return {
        "rounds": [asdict(item) for item in history.rounds],
        "client_metrics": history.client_metrics,
        "one_by_one": history.one_by_one,
        "scores": write_scores(history.scores),
        "client_scores": [write_scores(score) for score in history.client_scores],
    }


def _history(fields: Mapping[str, Any]) -> History:
    return History(
        tuple(Round(**{**item, "clients": tuple(item["clients"])}) for item in fields["rounds"]),
        torch.empty(0),
        tuple(fields["client_metrics"]),
        fields["one_by_one"],
        read_scores(fields["scores"]),
        tuple(read_scores(item) for item in fields["client_scores"]),
    )


_Codec = tuple[type, Callable[[Any], Any], Callable[[Any], Any]]
_KINDS: Final[Mapping[str, _Codec]] = {
    "attack": (AttackResult, asdict, _attack_result),
    "belief": (BeliefResult, asdict, lambda fields: BeliefResult(**fields)),
    "training": (History, _history_fields, _history),
    "costs": (RoundCosts, RoundCosts.as_json, RoundCosts.from_json),
    "failed": (Failed, asdict, lambda fields: Failed(**fields)),
}
