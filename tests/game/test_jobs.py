"""Tasks: every field that decides a payload is in the key under which it is journaled."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from tests.cli.own_scenario import small

from trilemma.federation.recipe import Recipe
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import (
    AttackJob,
    BeliefJob,
    CostJob,
    Job,
    TrainJob,
)
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary

RECIPE = Recipe(LocalTraining(batch=2), 0.5, server_decay=False, equal_weights=True)
SERVER, CLIENT = Adversary
# One value and another for every field of every kind of task.
KINDS: list[tuple[Job, dict[str, Any]]] = [
    (
        AttackJob("s", "none", ("analytic",), SERVER, 8, 0, 4),
        {
            "stream": "t", "protection": "secret-sharing", "attacks": ("analytic", "dlg"),
            "adversary": CLIENT, "rounds": 1, "first": 4, "count": 5, "pictures": 2,
            "recipe": RECIPE, "participation": "secret", "crafted": "imprint",
        },
    ),
    (
        BeliefJob("s", "none", ("exact-posterior",), SERVER, 8, 0, 4, 6),
        {
            "stream": "t", "protection": "secret-sharing", "attacks": ("gaussian-posterior",),
            "adversary": CLIENT, "rounds": 1, "first": 4, "count": 5, "draws": 7,
        },
    ),
    (
        TrainJob("none", 0, 8),
        {"protection": "secret-sharing", "seed": 1, "rounds": 9, "recipe": RECIPE},
    ),
    (CostJob("none", 8), {"protection": "secret-sharing", "rounds": 9, "recipe": RECIPE}),
]  # fmt: skip


@pytest.mark.parametrize(("task", "others"), KINDS, ids=lambda each: type(each).__name__)
def test_no_two_tasks_share_a_key(task: Job, others: dict[str, Any]) -> None:
    assert {field.name for field in fields(task)} == set(others), "every field is tried"
    keys = [replace(task, **{name: value}).key for name, value in others.items()]
    assert len({task.key, *keys}) == 1 + len(others)
    assert task.key == replace(task).key


def test_recipes_are_told_apart() -> None:
    other = replace(RECIPE, server_lr=0.6)
    one, two = (TrainJob("none", 0, 8, value).key for value in (RECIPE, other))
    assert one != two


def test_a_label_says_what_a_job_does() -> None:
    labels = [task.label for task, _ in KINDS]
    assert labels == [
        "analytic on unprotected updates over 8 rounds",
        "beliefs of exact-posterior on unprotected updates over 8 rounds",
        "training under unprotected updates over 8 rounds",
        "timing rounds under unprotected updates",
    ]


def test_what_a_bench_writes_is_read() -> None:
    work = JobRunner(small, None, 1, 2, 0)()
    games = decode(work(AttackJob("s", "none", ("analytic",), SERVER, 1, 0, 4)))
    assert games.correct == {"analytic": [True] * 4}
    assert len(games.client) == 4
    history = decode(work(TrainJob("none", 0, 3)))
    assert 0 <= history.metric <= 1
    assert len(history.client_metrics) == 2
    costs = decode(work(CostJob("secret-sharing", 2)))
    assert len(costs.within) == len(costs.without) == 2
