"""A choice: every family measured once, the best first, the control and the paper's part apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.cli.own_scenario import small
from tests.tuning.choice.small_plan import plan
from tests.tuning.simulating import Simulated, runner
from torch import nn

from trilemma.game.jobs import AttackJob, Job, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.choice.advice import limits
from trilemma.tuning.choice.choose import Choice, attacked, certain, choose, controls
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request


def chosen(distributions: dict[str, Any], **settings: Any) -> Choice:
    asked = {
        "basis": "measured",
        "attacks": ("gaussian-posterior",),
        "steps": 2,
        "efficiency_weight": 0.0,
    }
    made = Plan.of(small(), Request(**{**asked, **settings}))
    run = runner(Simulated(small, None, 1, 2, 0, **distributions))
    wanted = {**certain(made), **attacked(made), **controls(made)}
    return choose(made, {name: run(procedure) for name, procedure in wanted.items()}, {})


def test_the_best_is_chosen_and_the_control_kept() -> None:
    distributions = {"lost": {"randomization": 0.1}, "spread": 1e-4}
    found = chosen(distributions, families=("randomization", "secret-sharing"))
    assert [candidate.name for candidate in found.candidates] == [
        "secret-sharing",
        "randomization",
    ]
    assert found.chosen is found.candidates[0]
    assert found.control.by_attack == {"gaussian-posterior": 16}


def test_nothing_may_be_good_enough() -> None:
    found = chosen({"summed": 0.9}, families=("secret-sharing",))
    assert found.chosen is None
    assert len(found.candidates) == 1


def test_every_family_and_the_control() -> None:
    made = plan(families=("randomization", "paillier"))
    assert list(certain(made)) == ["paillier"]
    found = attacked(made)
    assert list(found) == ["baseline", "randomization"]
    done: list[Job] = []
    run = runner(Simulated(small, None, 1, 2, 0), done)
    won = {name: run(control) for name, control in controls(made).items()}
    assert list(won) == ["control, gaussian-posterior", "control, analytic"]
    assert choose(made, won, {}).control.by_attack == {"gaussian-posterior": 16, "analytic": 16}
    for task in done:
        assert isinstance(task, AttackJob)
        assert (task.protection, task.rounds) == ("none", 1)
        assert task.adversary is Adversary.SERVER
    done.clear()
    run(found["baseline"])
    trained = [item for item in done if isinstance(item, TrainJob)]
    assert [(item.protection, item.seed) for item in trained] == [("none", n) for n in range(5)]
    assert trained == done


def test_families_with_noise_are_proved_and_the_others_measured() -> None:
    made = plan(basis="proved", families=("randomization", "secret-sharing"))
    assert [made.proves(family) for family in made.families] == [True, False]
    assert "baseline" in attacked(made)
    run = runner(Simulated(small, None, 1, 2, 0))
    wanted = {**certain(made), **attacked(made)}
    found = choose(made, {name: run(value) for name, value in wanted.items()}, {})
    assert {candidate.name: candidate.basis for candidate in found.candidates} == {
        "randomization": "certified",
        "secret-sharing": "measured",
    }
    assert "baseline" not in attacked(plan(basis="proved"))


def test_where_the_model_allows_no_proof_everything_is_measured() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    remembering = replace(small(), model=model)
    remembering.model.train()
    made = replace(plan(basis="proved"), scenario=remembering)
    assert [made.proves(family) for family in made.families] == [False]
    assert "remembers them" in made.unprovable
    limited = limits(made, None)
    assert any(item.startswith("Nothing is proved here: the model") for item in limited)
