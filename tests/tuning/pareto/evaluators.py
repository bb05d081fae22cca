"""An evaluator of points of a small plan."""

from __future__ import annotations

from typing import Any

from tests.cli.own_scenario import small

from trilemma.tuning.families.family import Family
from trilemma.tuning.pareto.point_evaluator import PointEvaluator
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

NAMES = ("randomization", "compression", "secret-sharing", "paillier", "bounded-masks")


def evaluator(**settings: Any) -> PointEvaluator:
    asked = {"attacks": ("gaussian-posterior", "analytic"), "steps": 2, "families": NAMES}
    request = Request(**{"basis": "measured", **asked, **settings})
    return PointEvaluator(Plan.of(small(), request), units=40, seeds=2)


def family(evaluator: PointEvaluator, name: str) -> Family:
    (found,) = (item for item in evaluator.plan.families if item.name == name)
    return found
