"""A plan of a small federation."""

from __future__ import annotations

from typing import Any

from tests.cli.own_scenario import small

from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

ATTACKS = ("gaussian-posterior", "analytic")


def plan(clients: int = 2, **settings: Any) -> Plan:
    asked = {
        "basis": "measured",
        "attacks": ATTACKS,
        "steps": 2,
        "families": ("randomization",),
        **settings,
    }
    return Plan.of(small(clients), Request(**asked))
