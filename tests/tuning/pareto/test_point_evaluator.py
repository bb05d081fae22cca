"""Points: the same games at every strength, what is tested taken over, who reads the sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.cli.own_scenario import small
from tests.tuning.pareto.evaluators import evaluator, family
from tests.tuning.priced_candidates import candidate
from tests.tuning.simulating import Simulated, runner

from trilemma.errors import InvalidInput
from trilemma.game.estimates import Estimate
from trilemma.game.jobs import AttackJob, Job, TrainJob
from trilemma.protection.protection import Protection
from trilemma.tuning.calibration.outcomes import Tested
from trilemma.tuning.families.family import Family
from trilemma.tuning.pareto.point_evaluator import PointEvaluator
from trilemma.tuning.results.points import Point


@pytest.fixture(scope="module")
def usual() -> PointEvaluator:
    return evaluator()


def measured(
    evaluator: PointEvaluator,
    name: str,
    strength: float,
    done: list[Job] | None = None,
    **distributions: Any,
) -> Point:
    run = runner(Simulated(small, None, 1, 2, 0, **distributions), done)
    return run(evaluator.point(family(evaluator, name), strength))


def test_the_start_costs_nothing_and_leaks_most(usual: PointEvaluator) -> None:
    found = runner(Simulated(small, None, 1, 2, 0))(usual.unprotected())
    assert (found.family, found.protection, found.units) == ("none", "none", 40)
    assert found.recovered == 40
    assert found.utility_loss == found.efficiency_reduction == Estimate(0, 0, 0)


def test_the_same_games_at_every_strength_by_the_leading_attack(usual: PointEvaluator) -> None:
    done: list[Job] = []
    points = [measured(usual, "randomization", s, done) for s in (0.0, 0.5, 1.0)]
    rates = [point.recovered for point in points]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1]
    played = [item for item in done if isinstance(item, AttackJob)]
    assert {item.stream for item in played} == {"front of the message"}
    assert {item.attacks for item in played} == {("gaussian-posterior",)}
    assert {item.rounds for item in played} == {60}
    assert {item.seed for item in done if isinstance(item, TrainJob)} == {0, 1}
    assert all(point.by_attack == {"gaussian-posterior": point.recovered} for point in points)


def test_what_thins_is_measured_for_one_round(usual: PointEvaluator) -> None:
    done: list[Job] = []
    measured(usual, "compression", 0.5, done)
    assert {item.rounds for item in done if isinstance(item, AttackJob)} == {1}


def test_masks_cancel_in_the_sum_which_the_server_reads_too(usual: PointEvaluator) -> None:
    done: list[Job] = []
    found = measured(usual, "bounded-masks", 1.0, done, summed=0.9)
    played = {item.stream for item in done if isinstance(item, AttackJob)}
    assert played == {"front of the message", "front of the sum"}
    bare = measured(usual, "secret-sharing", 0.0, summed=0.9)
    assert found.recovered >= bare.recovered > 30
    assert "Not to be deployed" in found.note


def test_a_key_is_never_a_measured_zero(usual: PointEvaluator) -> None:
    done: list[Job] = []
    found = measured(usual, "paillier", 0.0, done)
    assert (found.basis, found.leakage, found.units) == ("cryptographic", None, 0)
    assert not [item for item in done if isinstance(item, AttackJob)]
    assert "3072 bits" in found.note


def test_what_cannot_be_run_or_trained_says_why(
    usual: PointEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = measured(usual, "randomization", 1.0, diverging=("randomization",))
    assert (lost.objectives, lost.units) == (None, 40)
    assert "diverged" in lost.note

    def refuse(self: Family, x: float) -> Protection:
        raise InvalidInput("noise is below the grid.")

    monkeypatch.setattr(Family, "protection", refuse)
    bad = measured(usual, "randomization", 0.0)
    assert (bad.protection, bad.objectives) == (None, None)
    assert bad.note == "Cannot be run: noise is below the grid."


def test_the_strength_that_was_found_costs_no_further_game(usual: PointEvaluator) -> None:
    noise = family(usual, "randomization")
    tests = (
        Tested("gaussian-posterior", 1e-3, 9, 9, passed=False),
        Tested("gaussian-posterior", 1e-2, 50, 5, passed=True),
        Tested("analytic", 1e-2, 30, 1, passed=True),
    )
    chosen = replace(
        candidate("randomization", 0.1), strength=1e-2, tests=tests, protection="x",
        leakage=Estimate(0.1, 0, 0.2), fresh=100, fresh_right=9,
    )  # fmt: skip
    found = usual.tested(noise, chosen)
    assert noise.strength(noise.at(found.place or 0.0)) == pytest.approx(1e-2)
    assert (found.units, found.recovered) == (100, 9)
    assert found.leakage == chosen.leakage
    assert found.metric == 0.9


def test_a_curious_client_reads_sums() -> None:
    curious = evaluator(adversary="client", families=("randomization", "secret-sharing"))
    found = runner(Simulated(small, None, 1, 2, 0))(curious.unprotected())
    assert found.recovered < 10, "the rate of a bare sum"
    assert [what for what, _ in curious.observed(family(curious, "randomization"), 0.0)] == ["sum"]
