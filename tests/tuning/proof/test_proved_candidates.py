"""`tune --knows anyone` on a bench whose trainings and picks follow known laws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.own_scenario import small
from tests.tuning.proof.certified import QUICK, SHARED, found, plan
from tests.tuning.simulating import Simulated, runner, simulate

from trilemma.accounting.noise_calibration import (
    epsilon,
    leakage_bound,
    leakage_supremum,
    success_bound,
    true_positive_rate,
)
from trilemma.errors import InvalidInput
from trilemma.game.jobs import AttackJob, CostJob, Job, TrainJob
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.attacks_on_proof import crafted_beside, proved_rounds, recipe_of
from trilemma.tuning.request import Request
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tuning_run import tune


def test_every_number_of_the_certificate_follows_from_z() -> None:
    candidate = found(helpers=1)
    proof = candidate.certificate
    assert proof is not None
    training, rest = proof.training(), proof.remainder
    assert training.rounds == 60
    assert (proof.survivors, proof.helpers, proof.level) == (2, 1, "record")
    assert sorted(proof.success) == [2, 10, 21, 100, 1000]
    for size, rate in proof.success.items():
        assert rate == pytest.approx(success_bound(training, size, remainder=rest))
        assert proof.known is not None
        assert proof.known[size] == pytest.approx(rate)
    assert (proof.leakage, proof.worst_candidates) == leakage_supremum(training, remainder=rest)
    assert proof.leakage <= 0.3
    assert proof.epsilon == epsilon(training, 1e-5)
    assert proof.true_positive_rate == true_positive_rate(training)
    assert (proof.chosen_on, proof.reported_on) == (20, 20)


def test_the_candidate_says_what_was_proved_and_carries_its_deployment() -> None:
    candidate = found()
    proof, deployed = candidate.certificate, candidate.deployment
    assert proof is not None
    assert deployed is not None
    assert candidate.basis == "certified"
    assert candidate.feasible
    assert candidate.leakage is not None
    assert candidate.leakage.high == proof.leakage
    assert candidate.strength == proof.variance
    assert candidate.symbol == "noise variance"
    (noise,) = parse_protection(candidate.protection or "").transforms
    assert isinstance(noise, Randomization)
    assert noise.variance == proof.variance
    assert deployed.local_training == LocalTraining(
        batch=80, record_clip=proof.record_clip, sampling="full", records=100
    )
    assert (deployed.weighting, deployed.rounds) == ("equal", 60)
    for word in (
        "20 records of the test set",
        "the other 20",
        "of 100 equally likely candidates",
        "of a rule",
    ):
        assert word in candidate.statement


def test_utility_is_reported_on_records_that_did_not_choose() -> None:
    done: list[Job] = []
    candidate = found(done=done, distributions={"lost": {"randomization": 0.04}})
    assert candidate.costs is not None
    assert candidate.costs.utility_loss.value == pytest.approx(0.04, abs=2e-3)
    assert candidate.costs.best_unprotected_metric == pytest.approx(0.9)
    trained = [task for task in done if isinstance(task, TrainJob)]
    for task in trained:
        assert task.recipe is not None
        reports = task.seed < 1000
        assert task.recipe.judge == ("reporting" if reports else "choosing")
    priced = {task.protection for task in trained if task.seed < 1000}
    assert priced == {"none", candidate.protection}
    (timed,) = [task for task in done if isinstance(task, CostJob)]
    assert timed.protection == candidate.protection
    assert timed.recipe is not None
    assert timed.recipe.local_training.record_clip is not None


def test_a_helper_with_the_key_opens_every_update() -> None:
    candidate = found("randomization+paillier", helpers=1)
    assert not candidate.feasible
    assert "holds the key" in candidate.statement
    assert found("randomization+paillier").feasible
    curious = found("randomization+paillier", adversary="client", helpers=1)
    assert curious.feasible, "who has no ciphertexts opens nothing"


def test_what_cannot_be_trained_or_breaks_a_cap_is_not_feasible() -> None:
    broken = found(distributions={"diverging": ("randomization:",)})
    assert not broken.feasible
    assert "diverged" in broken.statement
    dear = found(distributions={"lost": {"randomization": 0.2}}, max_utility_loss=0.1)
    assert not dear.feasible
    assert "exceeds the cap" in dear.statement


def test_a_malicious_server_stands_beside_the_proof() -> None:
    made, done = plan(helpers=1), list[Job]()
    candidate = found(helpers=1)
    job_runner = Simulated(made.source, None, 1, 2, 0, summed=0.25)
    (malicious,) = runner(job_runner, done)(crafted_beside(made, candidate))
    proof = candidate.certificate
    assert proof is not None
    assert proof.known is not None
    assert malicious.who == "a malicious server that knows every other record"
    assert f"allows a rate of {proof.known[21]:.3g}" in malicious.statement
    for task in done:
        assert isinstance(task, AttackJob)
        assert (task.adversary, task.recipe) == (Adversary.SERVER, recipe_of(candidate))
        (noise,) = parse_protection(task.protection).transforms
        assert isinstance(noise, Randomization)
        # the same crafted model in all rounds is one round at that share of the variance
        assert (task.crafted, task.rounds) == ("imprint", 1)
        assert noise.variance == pytest.approx(proof.variance * 2 / 3 / made.claim.rounds)
    whole = replace(candidate, certificate=replace(proof, clips_updates=True))
    assert runner(job_runner)(crafted_beside(made, whole)) == ()


def test_leakage_against_rounds_has_the_proof_above_the_games() -> None:
    made, candidate = plan(), found()
    proof = candidate.certificate
    assert proof is not None
    job_runner = Simulated(made.source, None, 1, 2, 0, summed=0.02)
    points = runner(job_runner)(proved_rounds(made, candidate))
    proved = {point.rounds: point.leakage.high for point in points if point.certified}
    for knows in ("rest", "candidates"):
        assert proved.keys() == {point.rounds for point in points if point.knows == knows}
    assert max(proved) == 60
    for rounds, bound in proved.items():
        expected = leakage_bound(proof.training(rounds), 21, remainder=proof.remainder)
        assert bound == pytest.approx(expected)
    assert list(proved.values()) == sorted(proved.values())


def test_a_whole_tuning_deploys_what_was_certified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch, summed=0.02, lost={"randomization": 0.01})
    verdict = tune(small(4), **QUICK)
    assert verdict.chosen in ("randomization", SHARED, "randomization+paillier")
    choice = verdict.choice
    assert choice is not None
    assert verdict.basis == "certified"
    assert verdict.deployment == choice.deployment
    assert verdict.claim.participation == "known"
    assert verdict.headline.startswith("Someone who holds 100 equally likely records")
    assert verdict.headline.endswith("Proved.")
    assert any("Momentum, error feedback" in limit for limit in verdict.limits)
    (beside,) = verdict.beside
    assert beside.who == "a malicious server that knows every other record"
    assert verdict.trade_off is not None
    assert {item.knows for item in verdict.rounds} == {"anyone", "rest", "candidates"}
    assert [item.basis for item in verdict.candidates] == ["certified"] * 3
    assert not verdict.curves
    verdict.save(tmp_path / "verdict.json")
    assert Verdict.load(tmp_path / "verdict.json") == verdict


def test_a_line_up_that_no_data_could_fill_can_be_proved() -> None:
    candidate = found(candidates=5000)
    proof = candidate.certificate
    assert proof is not None
    assert (proof.candidates, proof.worst_candidates) == (5000, 5000)
    assert plan(candidates=5000).claim.candidates == 21, "games are played with what there is"
    assert "at N = 5,000" in candidate.statement


def test_what_cannot_be_proved_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(InvalidInput, match="nothing can be proved of compression"):
        Plan.of(small(4), Request(**QUICK, families=("compression",)))
