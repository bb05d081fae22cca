"""Results: what a worker writes is what is read, of every kind; what failed says why."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch

from trilemma.federation.round_timing import RoundCosts, Spent
from trilemma.federation.training import History, Round
from trilemma.game.job_results import (
    AttackResult,
    BeliefResult,
    Diverged,
    Failed,
    Pictures,
    Result,
    Shown,
    converged,
    decode,
    encode,
)

SPENT = Spent(8.0, 16.0, 0.1, 0.25, 0.5, 1e-9)
SHOWN = Shown([[0, 255]], [[3, 4]], [True])
AFTER = {"dlg": {1: [False, False], 60: [True, False]}}
GAMES = AttackResult([1, 0], [3, 0], {"dlg": [True, False]}, {"dlg": 1}, AFTER)
WHOLE: list[Result] = [
    GAMES,
    AttackResult([0], [1], {"map": [True]}, {"map": 0}, pictures=Pictures([[9]], {"map": SHOWN})),
    AttackResult([0], [1], {"t": [True]}, {"t": 0}, pictures=Pictures([[["a", True]]], {})),
    BeliefResult([2, 1], {"exact-posterior": [0.1, 1 / 3]}),
    RoundCosts((SPENT,), (SPENT,)),
    Failed("the weights are NaN."),
]


@pytest.mark.parametrize("result", WHOLE, ids=lambda each: type(each).__name__)
def test_what_is_written_is_read(result: Result) -> None:
    found = decode(encode(result))
    assert type(found) is type(result)
    assert repr(found).replace("(", "[").replace(")", "]") == repr(result).replace(
        "(", "["
    ).replace(")", "]"), "a pair comes back as a list"


def test_a_training_is_read_without_its_weights() -> None:
    rounds = (Round(0, (0, 2), None, None), Round(1, (1, 2), 0.1, 0.9))
    scores = torch.tensor([1.0, 0.0, 1.0])
    made = History(rounds, torch.ones(5), (0.5, 0.25), "a reason", scores, (None, scores))
    found = decode(encode(made))
    for field in ("rounds", "client_metrics", "one_by_one"):
        assert getattr(found, field) == getattr(made, field)
    assert found.weights.numel() == 0
    assert found.scores.tolist() == scores.tolist()
    assert found.client_scores[0] is None
    assert found.client_scores[1].tolist() == scores.tolist()
    assert {field.name for field in fields(History)} == {
        *("rounds", "weights", "client_metrics", "one_by_one", "scores", "client_scores")
    }, "a new field is written too"


def test_games_that_an_attack_won_after_each_number_of_rounds() -> None:
    assert GAMES.won("dlg") == 1
    assert GAMES.won_after("dlg") == (0, 1)


def test_results_are_whole_or_say_why_not() -> None:
    assert converged(["a", "b"]) == ["a", "b"]
    mixed: list[Any] = ["a", Failed("the weights are NaN.")]
    with pytest.raises(Diverged, match="the weights are NaN"):
        converged(mixed)


def test_no_result_holds_what_json_cannot() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(BeliefResult([0], {"x": [float("nan")]}))
