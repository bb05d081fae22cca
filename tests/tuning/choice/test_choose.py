"""A choice: every family measured once, the best first, the control and the paper's part apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.cli.own_scenario import small
from tests.tuning.simulating import Simulated, runner
from torch import nn

from trilemma.game.jobs import AttackJob, Job, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.choice.advice import limits
from trilemma.tuning.choice.choose import Choice, choose, procedures
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request


def chosen(laws: dict[str, Any], **settings: Any) -> Choice:
    asked = {
        "basis": "measured",
        "attacks": ("gaussian-posterior",),
        "steps": 2,
        "efficiency_weight": 0.0,
    }
    made = Plan.of(small(), Request(**{**asked, **settings}))
    run = runner(Simulated(small, None, 1, 2, 0, **laws))
    return choose({name: run(procedure) for name, procedure in procedures(made).items()})


def test_the_best_is_chosen_and_the_control_kept() -> None:
    laws = {"lost": {"randomization": 0.1}, "spread": 1e-4}
    found = chosen(laws, families=("randomization", "secret-sharing"))
    assert [each.name for each in found.candidates] == ["secret-sharing", "randomization"]
    assert found.chosen is found.candidates[0]
    assert found.control.by_attack == {"gaussian-posterior": 16}


def test_nothing_may_be_good_enough() -> None:
    found = chosen({"summed": 0.9}, families=("secret-sharing",))
    assert found.chosen is None
    assert len(found.candidates) == 1


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


def test_every_family_and_the_control() -> None:
    found = procedures(plan(families=("randomization", "paillier")))
    assert list(found) == ["control", "baseline", "randomization", "paillier"]
    done: list[Job] = []
    run = runner(Simulated(small, None, 1, 2, 0), done)
    control = run(found["control"])
    assert control.by_attack == {"gaussian-posterior": 16, "analytic": 16}
    for task in done:
        assert isinstance(task, AttackJob)
        assert (task.protection, task.rounds) == ("none", 1)
        assert task.adversary is Adversary.SERVER
    done.clear()
    run(found["baseline"])
    trained = [each for each in done if isinstance(each, TrainJob)]
    assert [(each.protection, each.seed) for each in trained] == [("none", n) for n in range(5)]
    assert trained == done


def test_families_with_noise_are_proved_and_the_others_measured() -> None:
    made = plan(basis="proved", families=("randomization", "secret-sharing"))
    assert [made.proves(family) for family in made.families] == [True, False]
    assert "baseline" in procedures(made)
    run = runner(Simulated(small, None, 1, 2, 0))
    found = choose({name: run(each) for name, each in procedures(made).items()})
    assert {each.name: each.basis for each in found.candidates} == {
        "randomization": "certified",
        "secret-sharing": "measured",
    }
    assert "baseline" not in procedures(plan(basis="proved"))


def test_where_the_model_allows_no_proof_everything_is_measured() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    remembering = replace(small(), model=model)
    remembering.model.train()
    made = replace(plan(basis="proved"), scenario=remembering)
    assert [made.proves(family) for family in made.families] == [False]
    assert "remembers them" in made.unprovable
    limited = limits(made, None)
    assert any(each.startswith("Nothing is proved here: the model") for each in limited)
