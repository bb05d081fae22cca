"""When a record counts as recovered."""

from __future__ import annotations

import pytest
from tests.game.attackers import small_scenario

from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput
from trilemma.game.recovering.criterion import choose_criterion


def test_a_criterion_is_the_one_asked_for_the_scenarios_own_or_the_default() -> None:
    scenario = small_scenario()
    assert choose_criterion(scenario, Criterion("psnr", 33.0)).criterion.threshold == 33.0
    assert choose_criterion(scenario).criterion.threshold in (20.0, 25.0, 30.0)
    with pytest.raises(InvalidInput, match="window of 11x11"):
        choose_criterion(scenario, Criterion("ssim", 0.5))
