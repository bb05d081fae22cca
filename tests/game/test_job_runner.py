"""A worker's work: the same payload whatever else it does; what diverges is a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest
from tests.cli.own_scenario import shown, small

from trilemma.attacks import View, get
from trilemma.game.job_results import Diverged, converged, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import (
    AttackJob,
    BeliefJob,
    CostJob,
    TrainJob,
)
from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Game
from trilemma.game.playing.observer import Observer
from trilemma.observations import Adversary
from trilemma.scenarios.text import text

SERVER, CLIENT = Adversary
GAMES = AttackJob("s", "none", ("analytic",), SERVER, 1, 0, 6)
job_runner = partial(JobRunner, small, None, 1, 2)


def test_a_payload_depends_on_the_task_and_the_settings_alone() -> None:
    one, other = job_runner(0)(), job_runner(0)()
    other(TrainJob("none", 3, 2))
    assert one(GAMES) == other(GAMES) == one(GAMES)
    assert one(GAMES) != job_runner(1)()(GAMES)


def test_attacks_on_the_same_games_share_what_is_seen_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Observer] = []
    views = Observer.views

    def counted(self: Observer, games: Sequence[Game]) -> list[list[View]]:
        made.append(self)
        return views(self, games)

    monkeypatch.setattr(Observer, "views", counted)
    games = replace(GAMES, protection="randomization:variance=1e-6", rounds=6)
    names = ("analytic", "map", "analytic", "gaussian-posterior", "exact-posterior")
    tasks = [replace(games, attacks=(name,), pictures=name == "map") for name in names]
    work = job_runner(0)()
    together = [work(task) for task in tasks]
    assert [item.knows for item in made] == ["public", "candidates", "rest"]
    assert together == [job_runner(0)()(task) for task in tasks]
    others: list[dict[str, Any]] = [
        *({"first": 6}, {"count": 3}, {"stream": "other"}, {"rounds": 5}),
        *({"protection": "randomization:variance=1.0"}, {"adversary": Adversary.CLIENT}),
    ]
    for change in others:
        before = len(made)
        work(games)
        work(replace(games, **change))
        assert len(made) == before + 2, f"what was seen of other games: {change}"


@pytest.mark.parametrize("attack", ["dlg", "map", "inverting-gradients", "gaussian-posterior"])
@pytest.mark.parametrize("rounds", [1, 60])
def test_games_are_played_alike_in_tasks_of_any_size(attack: str, rounds: int) -> None:
    """What is drawn for a game goes by its number, not by its place among those of a task."""
    noise = "randomization:variance=1e-4"
    games = replace(GAMES, protection=noise, attacks=(attack,), rounds=rounds, count=9)
    work = JobRunner(small, None, 2, 2, 0)()
    whole = decode(work(games))
    parts = [
        decode(work(replace(games, first=first, count=count)))
        for first, count in ((0, 2), (2, 6), (8, 1))
    ]
    for name in ("client", "rounds"):
        assert getattr(whole, name) == [item for part in parts for item in getattr(part, name)]
    assert whole.correct[attack] == [item for part in parts for item in part.correct[attack]]
    assert sum(whole.correct[attack]) > 0 or attack == "inverting-gradients"


def test_streams_share_no_game() -> None:
    work = job_runner(0)()
    more = AttackJob("s", "none", ("analytic",), SERVER, 1, 0, 40)
    other = replace(more, stream="t")
    assert decode(work(more)).client != decode(work(other)).client


def test_texts_are_shown_word_by_word() -> None:
    task = AttackJob("s", "none", ("tokens",), SERVER, 1, 0, 2, pictures=2)
    found = decode(JobRunner(text(clients=2), Claim(1, 20), 1, 2, 0)()(task)).pictures
    made = found.attacks["tokens"]
    assert made.correct == [True, True]
    assert made.made == made.guessed == found.target
    assert all(right for record in made.made for _, right in record)


def test_pictures_are_made_where_records_are_shown() -> None:
    task = AttackJob("s", "none", ("analytic",), SERVER, 1, 0, 4, pictures=2)
    assert decode(job_runner(0)()(task)).pictures is None
    found = decode(JobRunner(shown, None, 1, 2, 0)()(task)).pictures
    assert len(found.target) == 2
    assert found.attacks["analytic"].correct == [True, True]


def test_beliefs_are_by_client_and_one_attacker_gains_nothing_by_the_other() -> None:
    work, names = job_runner(0)(), ("gaussian-posterior", "exact-posterior")
    both = BeliefJob("s", "randomization:variance=0.01", names, SERVER, 1, 0, 3, 2)
    found = decode(work(both))
    assert len(found.client) == 3
    for name in names:
        assert len(found.leakage[name]) == 3
        assert all(0 <= item <= 1 for item in found.leakage[name])
        alone = decode(work(replace(both, attacks=(name,))))
        assert alone.leakage == {name: pytest.approx(found.leakage[name], abs=1e-9)}


def test_a_protection_that_cannot_be_trained_is_told() -> None:
    work = job_runner(0)()
    lost = decode(work(TrainJob("randomization:variance=1e99", 0, 4)))
    with pytest.raises(Diverged):
        converged([lost])


def test_one_round_and_a_training_are_games_of_one_number_of_candidates() -> None:
    """Blind guesses: the rate is that of the claim's N, however many one round would allow."""
    claim = Claim.of([80, 80], 1, rounds=60)
    assert (claim.candidates, Claim.of([80, 80], 1, rounds=1).candidates) == (21, 80)
    work = JobRunner(small, claim, 1, 2, 0)()
    noise = "randomization:variance=1e6"
    task = AttackJob("s", noise, ("analytic",), SERVER, 1, 0, 400)
    won = sum(decode(work(task)).correct["analytic"])
    assert binomtest(won, 400, 1 / 21).pvalue > 1e-3 > binomtest(won, 400, 1 / 80).pvalue


def test_a_cohort_is_trained_timed_and_attacked_and_no_more() -> None:
    made = replace(small(5), cohort=2)
    work, everyone = (JobRunner(value, None, 1, 2, 0)() for value in (made, small(5)))
    history = decode(work(TrainJob("none", 0, 30)))
    assert {len(item.clients) for item in history.rounds} == {2}
    assert {k for item in history.rounds for k in item.clients} == set(range(5))
    sharing = CostJob("secret-sharing:max_weight=2000", 6)
    few, all_five = (decode(value(sharing)).protected.bits for value in (work, everyone))
    assert few < all_five, "keys and shares go to the cohort alone"
    task = AttackJob("x", "secret-sharing", ("exact-posterior",), SERVER, 60, 0, 40)
    found = decode(work(task))
    counts = np.arange(1, 61)
    held = binom.pmf(counts, 60, 2 / 5 / 80) / binom.sf(0, 60, 2 / 5 / 80)  # of a record in use
    mean = counts @ held
    assert abs(np.mean(found.rounds) - mean) < 3.3 * np.sqrt((counts - mean) ** 2 @ held / 40)
    pairs = zip(found.correct["exact-posterior"], found.rounds, strict=True)
    assert all(right for right, rounds in pairs if rounds)


def test_attacks_from_below_the_rung_make_one_start() -> None:
    made = JobRunner(small, None, 5, 2, 0, knows="public")
    starts = {name: made.starts(get(name)) for name in ("dlg", "map", "gaussian-posterior")}
    assert starts == {"dlg": 1, "map": 5, "gaussian-posterior": 5}
    assert JobRunner(small, None, 5, 2, 0).starts(get("dlg")) == 5


@pytest.mark.parametrize("attack", ["dlg", "idlg", "map", "inverting-gradients"])
@pytest.mark.parametrize(
    ("spec", "rounds"),
    [("none", 1), ("randomization:variance=1e-4", 40), ("compression:keep=0.9", 1)],
)
def test_tasks_that_share_a_call_have_the_payloads_of_single_ones(
    attack: str, spec: str, rounds: int
) -> None:
    """Of a network without convolutions, to the last guess; pictures but for rounding."""
    first = AttackJob("s", spec, (attack,), SERVER, rounds, 0, 4, pictures=2)
    tasks = [first, replace(first, first=4, count=1, pictures=0), replace(first, first=9, count=3)]
    made = JobRunner(shown, None, 1, 2, 0, together=100)
    assert made.joins(tasks[:2], tasks[2])
    alone = [made()(task) for task in tasks]
    work: Any = made()
    shared, found = ([decode(item) for item in own] for own in (work.together(tasks), alone))
    for one, other in zip(shared, found, strict=True):
        assert replace(one, pictures=None) == replace(other, pictures=None)
        if one.pictures is not None:
            (a,), (b,) = (item.pictures.attacks.values() for item in (one, other))
            assert (a.guessed, a.correct) == (b.guessed, b.correct)
            assert np.abs(np.subtract(a.made, b.made)).max() <= 1, "a level of 256"
    assert [len(item.client) for item in found] == [4, 1, 3]
    assert [item.pictures and len(item.pictures.target) for item in found] == [2, None, 2]


def test_which_tasks_share_a_call() -> None:
    made = JobRunner(small, None, 1, 2, 0, together=16)
    games = AttackJob("s", "none", ("dlg",), SERVER, 1, 0, 6)
    assert made.joins([games], replace(games, first=6, count=10))
    assert not made.joins([games], replace(games, first=6, count=11)), "too many views"
    assert not made.joins([replace(games, rounds=40)], replace(games, rounds=40, first=6))
    changes: list[dict[str, Any]] = [
        *({"stream": "t"}, {"protection": "compression:keep=0.5"}, {"attacks": ("map",)}),
        *({"adversary": CLIENT}, {"rounds": 2}, {"crafted": "trap"}),
    ]
    for change in changes:
        assert not made.joins([games], replace(games, first=6, **change)), change
    slow = replace(games, attacks=("gaussian-posterior",))
    assert not made.joins([slow], slow), "it takes its time for each view"
    assert not made.joins([TrainJob("none", 0, 2)], games)
    assert not made.joins([games], TrainJob("none", 0, 2))
    assert not JobRunner(small, None, 1, 2, 0).joins([games], games), "nothing is joined on a CPU"


def test_what_does_not_fit_together_is_done_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [replace(GAMES, first=first) for first in (0, 6)]
    views = Observer.views

    def narrow(self: Observer, games: Sequence[Game]) -> list[list[View]]:
        if len(games) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return views(self, games)

    monkeypatch.setattr(Observer, "views", narrow)
    work: Any = job_runner(0)()
    assert work.together(tasks) == [work(task) for task in tasks]
