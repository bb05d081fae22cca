"""One batch at one model, seen T times at variance v, is one look at variance v / T."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import fisher_exact
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.attacks import get
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.playing.games import Arena
from trilemma.game.playing.guesses import play
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary, Noise
from trilemma.protection.specs import parse_protection

TIMES, VARIANCE, GAMES = 4, 1e-4, 160
EXACT = "exact-posterior"


def scenario() -> Scenario:
    """Every update is made of all records, and the server's step leaves the model where it is."""
    draw = torch.Generator().manual_seed(0)
    data = [
        TensorDataset(
            torch.rand(80, 8, generator=draw), torch.randint(0, 3, (80,), generator=draw)
        )
        for _ in range(2)
    ]
    local = LocalTraining(batch=80)
    return Scenario(nn.Linear(8, 3), cross_entropy, data[:1], data[1], local, server_lr=1e-12)


def right_guesses(rounds: int, variance: float, stream: str) -> int:
    work = JobRunner(scenario(), None, 1, 0, seed=5)()
    task = AttackJob(
        stream, f"randomization:variance={variance}", (EXACT,), Adversary.SERVER, rounds, 0, GAMES
    )
    found = decode(work(task))
    assert set(found.rounds) == {rounds}, "every round holds the record"
    return int(found.won(EXACT))


def differ(one: int, other: int) -> float:
    """p of Fisher's exact test between two proportions."""
    table = np.array([[one, GAMES - one], [other, GAMES - other]])
    return float(fisher_exact(table).pvalue)


def test_many_rounds_find_as_many_records_as_one_with_that_much_less_noise() -> None:
    many = right_guesses(TIMES, VARIANCE, "many")
    assert differ(many, right_guesses(1, VARIANCE / TIMES, "one")) > 0.01
    assert differ(many, right_guesses(1, VARIANCE, "same")) < 1e-6
    assert 0.2 < many / GAMES < 0.8


@pytest.mark.parametrize("times", [2, TIMES])
def test_with_the_same_noise_the_beliefs_are_equal(times: int) -> None:
    arena = Arena.of(scenario(), rounds=1)
    seen = Observer(arena, parse_protection("none"), Adversary.SERVER, "rest", seed=3, steps=0)
    games = [arena.draw(number, 3) for number in range(6)]
    draw, scale = torch.Generator().manual_seed(1), VARIANCE**0.5
    often, once = [], []
    for (view,) in seen.views(games):
        clean = view.observation.update
        noise = scale * torch.randn(times, len(clean), generator=draw)

        def noisy(added: torch.Tensor, deviation: float, view=view, clean=clean):  # type: ignore[no-untyped-def]
            said = Noise("gaussian", deviation)
            return replace(
                view, observation=replace(view.observation, update=clean + added, noise=said)
            )

        often.append([noisy(item, scale) for item in noise])
        once.append([noisy(noise.mean(0), scale / times**0.5)])
    many, one = (
        play(seen, games, views, get(EXACT), restarts=1, seed=0) for views in (often, once)
    )
    assert many.belief is not None
    assert one.belief is not None
    assert 0.2 < float(one.belief.amax(1).mean()) < 0.99, "a belief that still could move"
    torch.testing.assert_close(many.belief, one.belief, rtol=0, atol=2e-3)
    assert torch.equal(many.chosen, one.chosen)
