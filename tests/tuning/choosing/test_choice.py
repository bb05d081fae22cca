"""A choice: every family measured once, the best first, the control and the paper's part apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.commands.own_scenario import small
from tests.tuning.simulating import Simulated, asking

from trilemma.tuning.choosing.choice import Choice, choose
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.work.replay import Procedure


def chosen(laws: dict[str, Any], **settings: Any) -> Choice:
    asked = {"attacks": ("gaussian-posterior",), "steps": 2, "efficiency_weight": 0.0}
    plan = Plan.of(small(), Request(**{**asked, **settings}))
    ask = asking(Simulated(small, None, 1, 2, 0, **laws))

    def done(procedures: Mapping[str, Procedure], **_: object) -> dict[str, Any]:
        return {name: procedure(ask) for name, procedure in procedures.items()}

    return choose(plan, done)


def test_the_best_is_chosen_and_the_control_kept() -> None:
    laws = {"lost": {"randomization": 0.1}, "spread": 1e-4}
    found = chosen(laws, families=("randomization", "secret-sharing"))
    assert [each.name for each in found.candidates] == ["secret-sharing", "randomization"]
    assert found.chosen is found.candidates[0]
    assert found.control.by_attack == {"gaussian-posterior": 16}
    assert (found.constants, found.promises) == (None, ())


def test_nothing_may_be_good_enough() -> None:
    found = chosen({"summed": 0.9}, families=("secret-sharing",))
    assert found.chosen is None
    assert len(found.candidates) == 1


def test_the_papers_part_is_kept_apart() -> None:
    found = chosen({}, basis="surrogate")
    assert [each.basis for each in found.candidates] == ["surrogate"]
    assert found.constants is not None
    assert {each.mechanism for each in found.promises} >= {"randomization", "compression"}
