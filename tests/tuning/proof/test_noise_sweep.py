"""The figure beside a proof, on a bench whose trainings and guesses follow known laws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm
from tests.cli.own_scenario import small
from tests.tuning.proof.certified import found, plan
from tests.tuning.simulating import Simulated, runner

from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.game.jobs import AttackJob, Job, TrainJob
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.reporting.words.trade_off_text import attacked
from trilemma.tuning.proof.attacks_on_proof import EFFORTS, games_beside, ordered, recipe_of
from trilemma.tuning.proof.noise_sweep import possible_trade_off, trade_off
from trilemma.tuning.results.success_by_noise import TradeOff
from trilemma.tuning.time_left import amount_of, kind_of


def figure(done: list[Job] | None = None, **distributions: Any) -> TradeOff:
    candidate = found(helpers=1)
    job_runner = Simulated(small(4), None, 1, 2, 0, **distributions)
    made = runner(job_runner, done)(trade_off(plan(helpers=1), candidate))
    assert made is not None
    return made


def test_the_proof_is_the_closed_form_at_every_noise_multiplier() -> None:
    made, proof = figure(), found(helpers=1).certificate
    assert proof is not None
    assert [point.noise_multiplier / proof.noise_multiplier for point in made.points] == list(
        EFFORTS["usual"].factors
    )
    for point in made.points:
        mu = math.sqrt(60) / point.noise_multiplier
        closed = norm.cdf(norm.ppf(1 / 21) + mu)
        assert point.proof == pytest.approx(closed + proof.remainder, abs=1e-6)
        ratio = point.noise_multiplier / proof.noise_multiplier
        assert point.variance == pytest.approx(proof.variance * ratio**2)
    assert made.points[made.chosen].proof == pytest.approx(proof.success[21])
    assert (made.candidates, made.participation, made.rounds) == (21, "known", 60)
    assert (made.summed, made.noises) == (3, 2)


def test_games_add_the_noise_that_the_proof_counts() -> None:
    done: list[Job] = []
    figure(done)
    candidate = found(helpers=1)
    proof = candidate.certificate
    assert proof is not None
    played = [job for job in done if isinstance(job, AttackJob)]
    variances = set()
    for job in played:
        assert (job.adversary, job.recipe) == (Adversary.SERVER, recipe_of(candidate))
        (noise,) = parse_protection(job.protection).transforms
        assert isinstance(noise, Randomization)
        variances.add(round(noise.variance / (proof.variance * 2 / 3), 6))
    assert variances == {1 / 16, 1 / 4, 1.0, 4.0}
    strong = [job for job in played if "exact-posterior" in job.attacks]
    assert sum(job.count for job in strong) == 4 * EFFORTS["usual"].games
    assert all("gaussian-posterior" in job.attacks for job in strong)


def test_its_work_is_within_what_was_announced() -> None:
    done: list[Job] = []
    figure(done)
    announced = possible_trade_off(plan(helpers=1))
    for kind, most in announced.items():
        spent = sum(amount_of(job) for job in done if kind_of(job) == kind)
        if "linkage" not in kind.attacks:
            assert spent == most + (len(plan().pricing.seeds) if kind.what == "trainings" else 0)


@pytest.mark.parametrize("summed", [0.02, 0.3, 0.9])
def test_who_knows_more_succeeds_more_and_noise_never_helps(summed: float) -> None:
    made = figure(summed=summed)
    for name in ("lower", "upper", "rate"):
        table = np.array(
            [[getattr(attacker, name) for attacker in p.attackers] for p in made.points]
        )
        assert (np.diff(table, axis=1) >= 0).all(), "a weaker attacker looks stronger"
        assert (np.diff(table, axis=0) <= 0).all(), "more noise seems to help"
    for point in made.points:
        assert [attacker.knows for attacker in point.attackers] == list(KNOWLEDGE_LEVELS)
        assert all(attacker.upper <= point.proof for attacker in point.attackers)
        assert all(1 / 21 <= attacker.rate <= point.proof for attacker in point.attackers)


def test_limits_are_exact_and_share_the_error() -> None:
    made = figure(summed=0.3)
    cells = sum(attacker.units > 0 for point in made.points for attacker in point.attackers)
    tail = 0.05 / cells / 2
    last = made.points[-1].attackers[-1]
    own = beta.ppf(tail, last.recovered, last.units - last.recovered + 1) if last.recovered else 0
    assert last.lower >= own - 1e-12
    first = made.points[0].attackers[-1]
    most = beta.ppf(1 - tail, first.recovered + 1, first.units - first.recovered)
    assert first.upper == pytest.approx(min(most, made.points[0].proof))


def test_a_rate_above_the_proof_is_shown_as_crossed() -> None:
    assert not any(point.crossed for point in figure(summed=0.02).points)
    many = np.full((1, 1), 300)
    rates = ordered(many, many, np.array([0.1]), 0.05)
    assert rates.tolist() == [[0.1]], "an estimate never exceeds what is proved"
    assert figure(summed=0.99, middle={"exact-posterior": 1e9}).points[-1].crossed


def test_accuracy_is_that_of_the_chosen_recipe_and_falls_with_noise() -> None:
    done: list[Job] = []
    made, candidate = figure(done, lost={"randomization": 0.04}), found(helpers=1)
    trained = [job for job in done if isinstance(job, TrainJob)]
    assert {job.seed for job in trained} == set(range(made.seeds))
    assert {job.recipe and job.recipe.judge for job in trained} == {"reporting"}
    assert candidate.protection in {job.protection for job in trained}
    lost = [point.lost for point in made.points]
    assert lost == sorted(lost)
    chosen = made.points[made.chosen]
    assert candidate.costs is not None
    assert chosen.lost == pytest.approx(candidate.costs.unprotected_metric - chosen.metric.value)


def test_clipped_updates_have_a_proof_and_trainings_but_no_games() -> None:
    candidate, done = found(helpers=1), list[Job]()
    assert candidate.certificate is not None
    whole = replace(candidate, certificate=replace(candidate.certificate, clips_updates=True))
    made = runner(Simulated(small(4), None, 1, 2, 0), done)(trade_off(plan(helpers=1), whole))
    assert made is not None
    assert not any(isinstance(job, AttackJob) for job in done)
    assert made.games == 0
    assert attacked(made).startswith("Nothing was attacked")
    assert all(attacker.units == 0 for point in made.points for attacker in point.attackers)


def test_without_the_rounds_the_exact_posterior_alone_plays() -> None:
    candidate = found(helpers=1)
    assert candidate.certificate is not None
    secret = replace(candidate, certificate=replace(candidate.certificate, participation="secret"))
    job = games_beside(plan(helpers=1), secret)
    assert (job.attacks, job.participation) == (("exact-posterior",), "secret")


def test_nothing_is_drawn_of_what_is_not_proved() -> None:
    run = runner(Simulated(small(4), None, 1, 2, 0))
    assert run(trade_off(plan(helpers=1), None)) is None
    assert run(trade_off(plan(helpers=1), replace(found(helpers=1), certificate=None))) is None


def test_the_accuracy_at_less_noise_than_is_proved_is_whole_points() -> None:
    """Its interval too: the middle of an exact one would be the exact accuracy."""
    drawn = figure()
    less = drawn.points[: drawn.chosen]
    assert less
    for point in less:
        for end in (point.metric.value, point.metric.low, point.metric.high):
            assert 100 * end == pytest.approx(round(100 * end), abs=1e-9)
    exact = drawn.points[drawn.chosen].metric
    assert 100 * exact.low != pytest.approx(round(100 * exact.low), abs=1e-6)
