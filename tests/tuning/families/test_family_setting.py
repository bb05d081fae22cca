"""What families know of a federation: the separation of candidates, and the noise it asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cli.own_scenario import small
from tests.tuning.small_families import SETTING
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.game.playing.claims import Claim
from trilemma.game.playing.games import Arena
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.tuning.families.family_setting import Setting, separation_for


@pytest.mark.parametrize(("success", "candidates"), [(0.2, 100), (0.5, 10), (0.9, 2)])
def test_the_separation_gives_the_success_by_simulation(success: float, candidates: int) -> None:
    draw = np.random.default_rng(0)
    shifted = draw.normal(separation_for(success, candidates), 1, 40_000)
    best = draw.normal(size=(40_000, candidates - 1)).max(1)
    assert (shifted > best).mean() == pytest.approx(success, abs=0.01)


def test_a_blind_rate_needs_no_separation() -> None:
    assert separation_for(0.01, 100) < 0.01


def test_more_rounds_and_a_larger_spread_ask_for_more_noise() -> None:
    one = SETTING.noise_for(0.212, Claim(1, 100))
    often = 4 / (1 - (1 - 4 / 150) ** 150)  # rounds that hold a record that is used
    assert SETTING.noise_for(0.212, Claim(150, 100)) == pytest.approx(often * one)
    wide = replace(SETTING, spread=2 * SETTING.spread)
    assert wide.noise_for(0.212, Claim(1, 100)) == pytest.approx(4 * one)


def test_a_setting_is_measured_on_the_scenario() -> None:
    made = Setting.of(small(), seed=0, steps=2)
    assert (made.clients, made.records, made.unit_size) == (2, (80, 80), 1)
    assert made.parameters == 6 * 8 + 8 + 8 * 3 + 3
    assert made.spread > 0
    assert made.largest > 0
    assert made == Setting.of(small(), seed=0, steps=2)


def test_the_share_of_rounds_that_hold_a_record() -> None:
    """By games: how many of a training's rounds hold the record of the game."""
    made = replace(small(5), cohort=2)
    arena = Arena.of(made, rounds=60)
    draw, games = np.random.default_rng(0), 4000
    held = sum(arena.attendance(arena.draw(n, 0), draw).count(True) for n in range(games))
    share = Setting.of(made, seed=0, steps=2).share(60)
    assert held / (games * 60) == pytest.approx(share, rel=0.03)
    assert replace(SETTING, unit_size=10_000).share(60) == 1.0, "full batches"


def test_the_share_of_records_that_a_training_uses() -> None:
    """By drawing: fixed batches of 4, of clients of 40 and of 400 that take turns."""
    made = replace(SETTING, records=(40, 400), clients=1, unit_size=4)
    draw, used = np.random.default_rng(3), []
    for _ in range(400):
        cohort = draw.integers(2, size=60)
        seen = [set[int](), set[int]()]
        for client in cohort:
            seen[client].update(draw.permutation(made.records[client])[:4].tolist())
        used.append((len(seen[0]) + len(seen[1])) / 440)
    assert made.used(60) == pytest.approx(np.mean(used), abs=4 * float(np.std(used)) / 20)


def test_ranges_hold_the_first_change_of_statistics_that_are_sent() -> None:
    """They start at zero, and a batch's mean of 20 moves them by μ · 20 / lr at once."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3))
    inputs = torch.rand(40, 5) + 20.0
    data = inputs, torch.arange(40) % 3
    training = LocalTraining(batch=4, lr=0.1)
    made = Scenario(model, cross_entropy, [data], data, training, sends_statistics=True)
    assert Setting.of(made, seed=0, steps=20).largest > 19.5
