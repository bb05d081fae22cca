"""What a tuning measures before it chooses."""

from __future__ import annotations

from typing import Any

from tests.commands.own_scenario import small
from tests.tuning.simulating import Simulated, asking

from trilemma.estimation.jobs import AttackJob, Job
from trilemma.observations import Adversary
from trilemma.tuning.choosing.procedures import procedures
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

ATTACKS = ("gaussian-posterior", "analytic")


def plan(clients: int = 2, **settings: Any) -> Plan:
    asked = {"attacks": ATTACKS, "steps": 2, "families": ("randomization",), **settings}
    return Plan.of(small(clients), Request(**asked))


def test_every_family_and_the_control() -> None:
    found = procedures(plan(families=("randomization", "paillier")))
    assert list(found) == ["control", "randomization", "paillier"]
    done: list[Job] = []
    control = found["control"](asking(Simulated(small, None, 1, 2, 0), done))
    assert control.by_attack == {"gaussian-posterior": 16, "analytic": 16}
    for task in done:
        assert isinstance(task, AttackJob)
        assert (task.protection, task.rounds) == ("none", 1)
        assert task.adversary is Adversary.SERVER


def test_the_papers_basis_measures_what_the_paper_promises() -> None:
    found = procedures(plan(basis="surrogate"))
    assert list(found) == ["control", "promises", "surrogate"]
    ask = asking(Simulated(small, None, 1, 2, 0))
    constants, promises = found["promises"](ask)
    assert constants.smoothed, "all 16 controls were won, so the plain estimate is infinite"
    assert {each.mechanism for each in promises} >= {"randomization", "compression"}
    assert found["surrogate"](ask).basis == "surrogate"


def test_a_measured_run_attacks_the_papers_optimum_only_if_asked_and_with_the_leading() -> None:
    found = procedures(plan(paper=True))
    assert list(found) == ["control", "promises", "randomization"]
    assert "promises" not in procedures(plan())
    done: list[Job] = []
    found["promises"](asking(Simulated(small, None, 1, 2, 0), done))
    assert {
        task.attacks
        for task in done
        if isinstance(task, AttackJob) and task.stream.startswith("surrogate")
    } == {ATTACKS[:1]}
