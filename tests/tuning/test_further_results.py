"""Further results: only what was asked for, and only where it says something."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.own_scenario import shown
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import Simulated, runner

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.game.playing.claims import checkpoints
from trilemma.tuning.choice.choose import Choice
from trilemma.tuning.families.game_counts import Counts
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.tuning_run import further_procedures

CONTROL = Counts(24, {"gaussian-posterior": 24}, {}, 0)


def measured(names: tuple[str, ...], pictures: bool = False, **settings: Any) -> dict[str, Any]:
    asked = {"attacks": ("gaussian-posterior",), "steps": 2, "families": ("randomization",)}
    if "knows" not in settings:
        asked["basis"] = "measured"
    plan = Plan.of(shown(), Request(**{**asked, **settings}))
    run = runner(Simulated(shown, None, 1, 2, 0))
    found = ranked([candidate(name, 0.1) for name in names])
    choice = Choice(found, CONTROL)
    wanted = further_procedures(plan, choice, pictures=pictures)
    return {name: run(procedure) for name, procedure in wanted.items()}


def test_everything_where_something_was_chosen() -> None:
    found = measured(("randomization",), pictures=True, strengths=2)
    assert next(item.family for item in found["curves"]) == "none"
    assert [item.who for item in found["beside"]] == ["a curious client", "a malicious server"]
    assert len(found["rounds"]) == len(KNOWLEDGE_LEVELS) * len(checkpoints(shown().rounds))
    assert len(found["beliefs"]) == 2
    assert found["gallery"].target


def test_nothing_stands_beside_no_choice() -> None:
    found = measured((), strengths=2)
    assert found["beside"] == ()
    assert found["curves"], "to be looked at all the same"
    assert not found.keys() & {"rounds", "beliefs", "gallery"}


@pytest.mark.parametrize("settings", [{"strengths": 0}, {"knows": "anyone", "attacks": None}])
def test_curves_are_not_measured_where_nobody_asks_or_all_is_proved(
    settings: dict[str, Any],
) -> None:
    assert "curves" not in measured((), **settings)
