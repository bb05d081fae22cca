"""What the other adversary gets from what was chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.tuning.choice.small_plan import plan
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import Simulated, runner

from trilemma.game.jobs import AttackJob, Job
from trilemma.observations import Adversary
from trilemma.tuning.choice.other_adversary import beside

NOISE = replace(candidate("randomization", 0.1), protection="randomization:variance=0.001")
KEY = replace(candidate("paillier", 0.1), protection="paillier:mode=blind")


@pytest.mark.parametrize(("adversary", "other"), [("server", "client"), ("client", "server")])
def test_the_other_adversary_attacks_what_was_chosen(adversary: str, other: str) -> None:
    done: list[Job] = []
    asked = plan(adversary=adversary)
    found, *crafted = runner(Simulated(small, None, 1, 2, 0), done)(beside(asked, NOISE))
    assert other in found.who
    assert found.units == 16
    assert found.leakage is not None
    games = [task for task in done if isinstance(task, AttackJob)]
    assert len(games) == len(done)
    assert [item.who for item in crafted] == ["a malicious server"] * (adversary == "server")
    assert {task.crafted for task in games if task.attacks == ("analytic",)} <= {"imprint"}
    for task in games:
        if task.crafted is None:
            assert task.adversary is Adversary(other)
            assert task.attacks == ("gaussian-posterior",), "the leading attack alone"


def test_beside_a_key_the_server_has_nothing() -> None:
    run = runner(Simulated(small, None, 1, 2, 0))
    (found,) = run(beside(plan(adversary="client"), KEY))
    assert (found.who, found.leakage) == ("the server", None)


def test_nobody_stands_beside_nothing_or_a_lone_client() -> None:
    run = runner(Simulated(small, None, 1, 2, 0))
    assert run(beside(plan(), None)) == ()
    assert run(beside(plan(1), NOISE)) == ()
