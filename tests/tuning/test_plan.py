"""A request resolved for a federation: its claim, its rate, its attackers, its deployment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.own_scenario import small
from tests.tuning.own_parts import Laplace, Twice

from trilemma.beliefs.belief import bernoulli_leakage, largest_mean_success_rate
from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run
from trilemma.federation.deployment_terms import ServerTraining
from trilemma.tuning.families.family_setting import Setting
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

ATTACKS = ("gaussian-posterior", "analytic")


def plan(clients: int = 2, **settings: Any) -> Plan:
    basis = "proved" if "knows" in settings else "measured"
    asked = {"basis": basis, "attacks": ATTACKS, "steps": 2, **settings}
    return Plan.of(small(clients), Request(**asked))


def test_a_training_and_a_round() -> None:
    whole, once = plan(), plan(claim="one-round")
    assert (whole.claim.rounds, whole.claim.candidates) == (60, 21)
    assert (once.claim.rounds, once.claim.candidates) == (1, 80)
    assert plan(rounds=3).claim.rounds == 3
    assert once.pricing.rounds == 60, "costs are those of the training"
    for made in (whole, once):
        assert made.p_max == largest_mean_success_rate(0.3, made.claim.kappa)


def test_a_budget_that_every_guess_keeps_is_refused() -> None:
    most = bernoulli_leakage(1.0, 1 / 21)
    with pytest.raises(InvalidInput, match=rf"no record leaks more than {most:.4g}; give a small"):
        plan(budget=0.98)
    assert plan(budget=0.98, knows="anyone").request.budget == 0.98, "more candidates leak more"


def test_the_level_is_shared_by_the_streams() -> None:
    made = plan(families=("randomization", "secret-sharing", "compression"))
    assert made.calibrator().level == pytest.approx(0.05 / 2), "what thins is only estimated"
    once = plan(families=("randomization", "secret-sharing", "compression"), claim="one-round")
    assert once.calibrator().level == pytest.approx(0.05 / 3)
    alike = plan(families=("randomization+secret-sharing", "randomization+paillier"))
    assert alike.calibrator().level == pytest.approx(0.05)
    assert made.calibrator().part < once.calibrator().part, "a game of one round is little work"


def test_fewer_trainings_for_a_glance() -> None:
    made = plan(seeds=5)
    assert made.pricing.seeds == (0, 1, 2, 3, 4)
    assert made.at_most(2).seeds == (0, 1)


def test_the_deployment_is_what_is_attacked() -> None:
    found = plan(4).deployment
    assert (found.clients, found.cohort, found.threshold) == (4, 4, 3)
    assert (found.weighting, found.rounds, found.sampling_rate) == ("records", 60, 1 / 80)
    assert found.server == ServerTraining(plan(4).scenario.server_lr or 0.1)
    assert found.total_records == 400, "all 320, and room for a quarter more"
    assert plan(4, claim="one-round").deployment.rounds == 1, "what was measured is deployed"
    assert plan(4, threshold=2).deployment.threshold == 2
    with pytest.raises(InvalidInput, match="threshold"):
        plan(4, threshold=5)


def test_a_run_belongs_to_one_scenario(tmp_path: Path) -> None:
    asked = Request(attacks=ATTACKS, steps=2)
    with Run.open(tmp_path, {}) as run:
        tag = Plan.of(small(), asked, run=run).federation.data_hash
        run.commit("stage", b"payload")
    with Run.open(tmp_path, {}) as run:
        again = Plan.of(small(), asked, run=run)
        assert again.federation.data_hash == tag
        with pytest.raises(InvalidInput, match="local training"):
            Plan.of(small().with_local_training(lr=0.7), asked, run=run)


def test_a_run_belongs_to_one_request(tmp_path: Path) -> None:
    """Called from Python too, where no command names the settings of a run."""
    asked = Request(attacks=ATTACKS, steps=2)
    with Run.open(tmp_path, {}) as run:
        Plan.of(small(), asked, run=run)
        run.commit("stage", b"payload")
    with Run.open(tmp_path, {}) as run:
        Plan.of(small(), asked.model_copy(update={"strengths": 0}), run=run)
        with pytest.raises(InvalidInput, match=r"the request's restarts 3 there, 2 here"):
            Plan.of(small(), asked.model_copy(update={"restarts": 2}), run=run)


def test_a_run_belongs_to_the_code_of_others_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, twice = "tests.tuning.own_parts:Laplace", "tests.tuning.own_parts:Twice"
    asked = Request(attacks=(twice, "gaussian-posterior"), families=(noise,), steps=2)
    with Run.open(tmp_path, {}) as run:
        Plan.of(small(), asked, run=run)
        run.commit("stage", b"payload")
    with Run.open(tmp_path, {}) as run:
        Plan.of(small(), asked, run=run)
        for part in (Laplace, Twice):
            with monkeypatch.context() as patch:
                patch.setattr(part, "edited", lambda self: 2, raising=False)
                with pytest.raises(InvalidInput, match=f"the code of .*{part.__name__}"):
                    Plan.of(small(), asked, run=run)


def test_anyone_is_proved_and_measured_by_who_knows_the_rest() -> None:
    made = plan(knows="anyone", attacks=None, families=None)
    assert made.suite.attacks == ("exact-posterior",)
    assert all("randomization" in family.name for family in made.families)
    assert made.claim.participation == "known"
    secret = plan(knows="anyone", attacks=None, families=None, participation="secret")
    assert secret.claim.participation == "secret"


def test_a_run_that_is_resumed_keeps_what_was_measured_of_the_federation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU sums in another order every time; strengths, and so all tasks, would be others."""
    asked = Request(attacks=ATTACKS, steps=2)
    with Run.open(tmp_path, {}) as run:
        first = Plan.of(small(), asked, run=run)
        first.setting.keep(run)
        run.commit("a task", b"")
    measured = Setting.of

    def otherwise(*arguments: Any, **settings: Any) -> Setting:
        found = measured(*arguments, **settings)
        return replace(found, spread=1.001 * found.spread)

    monkeypatch.setattr(Setting, "of", otherwise)
    with Run.open(tmp_path, {}) as run:
        again = Plan.of(small(), asked, run=run)
    assert again.setting == first.setting
    assert [family.domain for family in again.families] == [
        family.domain for family in first.families
    ]
    assert plan().setting != first.setting, "without a run it is measured"
