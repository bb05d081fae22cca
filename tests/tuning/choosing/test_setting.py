"""What families know of a federation: the separation of candidates, and the noise it asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.commands.own_scenario import small
from tests.tuning.calibrating.test_gauge import SETTING

from trilemma.estimation.claims import Claim
from trilemma.tuning.choosing.setting import Setting, separation_for


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
    assert SETTING.noise_for(0.212, Claim(150, 100)) == pytest.approx(4 * one)
    wide = replace(SETTING, spread=2 * SETTING.spread)
    assert wide.noise_for(0.212, Claim(1, 100)) == pytest.approx(4 * one)


def test_a_setting_is_measured_on_the_scenario() -> None:
    made = Setting.of(small(), seed=0, steps=2)
    assert (made.clients, made.records, made.unit_size) == (2, (80, 80), 1)
    assert made.parameters == 6 * 8 + 8 + 8 * 3 + 3
    assert made.spread > 0
    assert made.largest > 0
    assert made.equal_weights
    assert made == Setting.of(small(), seed=0, steps=2)
