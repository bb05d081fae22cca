"""What is estimated whatever will be chosen."""

from __future__ import annotations

from typing import Any

from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate

from trilemma.attacks.base import RUNGS
from trilemma.tuning.estimates import certain_estimates
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

ASKED: dict[str, Any] = {
    "attacks": ("gaussian-posterior",),
    "steps": 2,
    "families": ("randomization",),
}


def test_the_ladder_at_once_and_the_curve_of_a_family_when_it_was_measured() -> None:
    plan = Plan.of(small(), Request(**ASKED, strengths=2))
    before = certain_estimates(plan, ())
    after = certain_estimates(plan, (candidate("randomization", 0.1),))
    ladder = {f"{rung}: randomization" for rung in RUNGS if rung != "candidates"}
    assert set(before) == {*ladder, "curve of none"}
    assert set(before) < set(after)
    assert all(name.startswith("curve of randomization") for name in after.keys() - before.keys())


def test_a_proof_needs_none() -> None:
    assert certain_estimates(Plan.of(small(), Request(**ASKED, knows="anyone")), ()) == {}
