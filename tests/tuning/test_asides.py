"""What is measured beside a choice: only what was asked for, and only where it says something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import candidate
from tests.tuning.simulating import Simulated, asking

from trilemma.attacks.base import RUNGS
from trilemma.estimation.playing.claims import checkpoints
from trilemma.tuning.asides import measure_asides
from trilemma.tuning.choosing.choice import Choice
from trilemma.tuning.families.counts import Counts
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.work.replay import Procedure

CONTROL = Counts(24, {"gaussian-posterior": 24}, {}, 0)


def measured(names: tuple[str, ...], **settings: Any) -> dict[str, Any]:
    asked = {"attacks": ("gaussian-posterior",), "steps": 2, "families": ("randomization",)}
    plan = Plan.of(small(), Request(**{**asked, **settings}))
    ask = asking(Simulated(small, None, 1, 2, 0))

    def done(procedures: Mapping[str, Procedure], **_: object) -> dict[str, Any]:
        return {name: procedure(ask) for name, procedure in procedures.items()}

    found = ranked([candidate(name, 0.1) for name in names])
    return measure_asides(plan, Choice(found, CONTROL, None, ()), done)


def test_everything_where_something_was_chosen() -> None:
    found = measured(("randomization",), strengths=2)
    assert {each.knows for each in found["ladder"]} == {"nothing", "public", "candidates", "rest"}
    assert found["ladder"][0].tested
    assert next(each.family for each in found["curves"]) == "none"
    assert len(found["beside"]) == 1
    assert len(found["rounds"]) == len(RUNGS) * len(checkpoints(small().rounds))
    assert len(found["beliefs"]) == 2


def test_nothing_stands_beside_no_choice() -> None:
    found = measured((), strengths=2)
    assert (found["beside"], found["rounds"], found["beliefs"]) == ((), (), ())
    assert found["curves"], "to be looked at all the same"


@pytest.mark.parametrize(
    ("settings", "empty"),
    [({"strengths": 0}, "curves"), ({"ladder": False}, "other rungs")],
)
def test_what_is_not_asked_for_is_not_measured(settings: dict[str, Any], empty: str) -> None:
    found = measured(("randomization",), **settings)
    left = [each for each in found["ladder"] if not each.tested]
    assert not (found["curves"] if empty == "curves" else left)


def test_the_papers_basis_has_none_of_it() -> None:
    found = measured((), basis="surrogate")
    assert all(each == () for each in found.values())
