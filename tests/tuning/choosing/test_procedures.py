"""What a tuning measures before it chooses, and beside the choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.commands.own_scenario import small
from tests.tuning.choosing.test_pricing import candidate
from tests.tuning.simulating import Simulated, asking

from trilemma.estimation.tasks import AttackTask, Task
from trilemma.observations import Adversary
from trilemma.tuning.choosing.procedures import procedures, procedures_beside
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

ATTACKS = ("gaussian-posterior", "analytic")


def plan(clients: int = 2, **settings: Any) -> Plan:
    asked = {"attacks": ATTACKS, "steps": 2, "families": ("randomization",), **settings}
    return Plan.of(small(clients), Request(**asked))


def test_every_family_and_the_control() -> None:
    found = procedures(plan(families=("randomization", "paillier")))
    assert list(found) == ["control", "randomization", "paillier"]
    done: list[Task] = []
    control = found["control"](asking(Simulated(small, None, 1, 2, 0), done))
    assert control.by_attack == {"gaussian-posterior": 24, "analytic": 24}
    for task in done:
        assert isinstance(task, AttackTask)
        assert (task.protection, task.rounds) == ("none", 1)
        assert task.adversary is Adversary.SERVER


def test_the_papers_basis_measures_what_the_paper_promises() -> None:
    found = procedures(plan(basis="surrogate"))
    assert list(found) == ["control", "promises", "surrogate"]
    ask = asking(Simulated(small, None, 1, 2, 0))
    constants, promises = found["promises"](ask)
    assert constants.smoothed, "all 24 controls were won, so the plain estimate is infinite"
    assert {each.mechanism for each in promises} >= {"randomization", "compression"}
    assert found["surrogate"](ask).basis == "surrogate"


NOISE = replace(candidate("randomization", 0.1), protection="randomization:variance=0.001")
KEY = replace(candidate("paillier", 0.1), protection="paillier:mode=blind")


@pytest.mark.parametrize(("adversary", "other"), [("server", "client"), ("client", "server")])
def test_the_other_adversary_attacks_what_was_chosen(adversary: str, other: str) -> None:
    done: list[Task] = []
    asked = plan(adversary=adversary)
    (measure,) = procedures_beside(asked, NOISE).values()
    beside = measure(asking(Simulated(small, None, 1, 2, 0), done))
    assert other in beside.who
    assert beside.units == 16
    assert beside.leakage is not None
    for task in done:
        assert isinstance(task, AttackTask)
        assert task.adversary is Adversary(other)
        assert task.attacks == ("gaussian-posterior",), "the leading attack alone"


def test_beside_a_key_the_server_has_nothing() -> None:
    (measure,) = procedures_beside(plan(adversary="client"), KEY).values()
    beside = measure(asking(Simulated(small, None, 1, 2, 0)))
    assert (beside.who, beside.leakage) == ("the server", None)


def test_nobody_stands_beside_nothing_or_a_lone_client() -> None:
    assert procedures_beside(plan(), None) == {}
    assert procedures_beside(plan(1), NOISE) == {}
