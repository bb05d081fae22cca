"""The search finds the best of settings whose trainings are a known function of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from tests.commands.own_scenario import small
from tests.tuning.simulating import answered
from torch.nn.functional import cross_entropy

from trilemma.estimation.jobs import Job, TrainJob
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.results import Failed
from trilemma.estimation.scenario import Scenario
from trilemma.federation.recipe import Recipe
from trilemma.federation.training import History, Round
from trilemma.learning import LocalTraining
from trilemma.tuning.certificate.proof import Proof
from trilemma.tuning.certificate.searching import (
    CLIP_TRAININGS,
    STEP_TRAININGS,
    best_clip,
    best_unprotected,
    climb,
    usual_norm,
)
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.work.scheduler import Procedure

Trained = Callable[[Sequence[Job]], list[History | Failed]]


def trained(metric: Callable[[Recipe, str], float | None], done: list[TrainJob]) -> Trained:
    """Results of trainings whose metric is this function of recipe and protection."""

    def results(jobs: Sequence[Job]) -> list[History | Failed]:
        made: list[History | Failed] = []
        for job in jobs:
            assert isinstance(job, TrainJob)
            assert job.recipe is not None
            done.append(job)
            value = metric(job.recipe, job.protection)
            last = Round(7, (0, 1), 0.0, value)
            whole = History((last,), torch.empty(0), (value or 0.0,) * 2, None)
            made.append(Failed("why") if value is None else whole)
        return made

    return results


def climbed(
    scores: Callable[[Sequence[float]], list[tuple[float, float]]], start: float, factor: float
) -> float:
    """Where a climb ends whose scores are known."""

    def known(places: Sequence[float]) -> Procedure[list[tuple[float, float]]]:
        yield from ()
        return scores(places)

    return answered(climb(known, start, factor), lambda jobs: [])


def proof(**settings: object) -> Proof:
    return Proof.of(Plan.of(small(3), Request(knows="anyone", **settings)), "secret-sharing")


@pytest.mark.parametrize("peak", [1e-3, 0.3, 1.0, 5.0, 200.0])
def test_a_climb_ends_on_the_nearest_power(peak: float) -> None:
    tried: list[float] = []

    def scores(places: Sequence[float]) -> list[tuple[float, float]]:
        tried.extend(places)
        return [(-abs(math.log(place / peak)), 0.0) for place in places]

    found = climbed(scores, 1.0, 2.0)
    nearest = 2.0 ** max(-8, min(8, round(math.log2(peak))))
    assert found == pytest.approx(nearest)
    assert len(tried) == len(set(tried)), "no setting is trained twice"


def test_ties_stay_near_the_start_and_failures_lose() -> None:
    assert climbed(lambda places: [(0.0, 0.0)] * len(places), 3.0, 2.0) == 3.0

    def broken_above(places: Sequence[float]) -> list[tuple[float, float]]:
        return [(-math.inf, 0.0) if place > 1.5 else (place, 0.0) for place in places]

    assert climbed(broken_above, 1.0, 2.0) == 1.0


def test_clip_and_step_are_found_where_trainings_are_best() -> None:
    scenario, done = small(3), list[TrainJob]()
    norm = usual_norm(scenario)

    def metric(recipe: Recipe, _: str) -> float:
        clip = recipe.local_training.record_clip
        assert clip is not None
        move = recipe.step * clip
        return 1 - abs(math.log(clip / (0.3 * norm))) - abs(math.log(move / norm))

    found = answered(best_clip(proof(), scenario, 8), trained(metric, done))
    assert CLIP_TRAININGS[0] <= len({task.key for task in done}) <= CLIP_TRAININGS[1]
    assert found.clip == pytest.approx(0.3 * norm)
    assert found.server_lr * found.clip == pytest.approx(norm, rel=0.2)
    for task in done:
        recipe = task.recipe
        assert recipe is not None
        assert (recipe.judge, recipe.equal_weights, recipe.server_decay) == (
            "choosing",
            True,
            True,
        )
        assert recipe.local_training.sampling == "poisson"
        clip = recipe.local_training.record_clip
        assert clip is not None
        assert task.protection == f"randomization:variance={proof().variance(clip)!r}"
        assert task.seed >= 1000, "no seed that utility is reported for"


def test_the_unprotected_training_is_tuned_too() -> None:
    def metric(recipe: Recipe, protection: str) -> float | None:
        assert protection == "none"
        if recipe.step > 3:
            return None
        return -abs(math.log(recipe.step / 1.6)) + 0.1 * recipe.server_decay

    done: list[TrainJob] = []
    found = answered(best_unprotected(small(), 8), trained(metric, done))
    assert STEP_TRAININGS[0] <= len({task.key for task in done}) <= STEP_TRAININGS[1]
    assert found.server_lr == pytest.approx(1.6, rel=0.2)
    assert found.server_decay
    assert (found.judge, found.equal_weights) == ("choosing", False)
    assert found.local_training == small().local_training


def gradient_norms(scenario: Scenario) -> list[float]:
    """By autograd, one public record at a time."""
    norms = []
    for weights in fresh_weights(scenario, range(4)):
        for row in range(32):
            at = weights.clone().requires_grad_()
            outputs = scenario.task.outputs(at, scenario.public_records.inputs[[row]])
            loss = cross_entropy(outputs, scenario.public_records.labels[[row]])
            (gradient,) = torch.autograd.grad(loss, at)
            norms.append(float(gradient.norm()))
    return norms


@pytest.mark.parametrize("batch", [1, 4])
def test_the_usual_norm_is_the_median_of_single_records(batch: int) -> None:
    scenario = replace(small(), local_training=LocalTraining(batch=batch))
    expected = float(torch.tensor(gradient_norms(scenario)).double().quantile(0.5))
    assert usual_norm(scenario) == pytest.approx(expected, rel=1e-4)


def test_the_usual_norm_of_fedavg_is_that_of_whole_updates() -> None:
    local = LocalTraining("fedavg", lr=0.1, steps=3, batch=2)
    short = usual_norm(replace(small(), local_training=local))
    long = usual_norm(replace(small(), local_training=replace(local, lr=0.2)))
    assert long == pytest.approx(2 * short, rel=0.1)
