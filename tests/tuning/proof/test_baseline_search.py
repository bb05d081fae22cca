"""The search finds the best of settings whose trainings are a known function of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from tests.cli.own_scenario import small
from tests.tuning.simulating import answered

from trilemma.execution.scheduler import Procedure
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import WarmStart
from trilemma.federation.training import History, Round
from trilemma.game.job_results import Failed
from trilemma.game.jobs import Job, TrainJob
from trilemma.learning import LocalTraining
from trilemma.tuning.proof.baseline_search import (
    AVERAGED_TRAININGS,
    FREE_TRAININGS,
    REFINED_TRAININGS,
    STEP_TRAININGS,
    best_free,
    best_unprotected,
    climb,
)
from trilemma.tuning.recipe_rule import CLIP

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


def test_the_best_training_has_the_freedoms_of_a_protected_one() -> None:
    scenario, done = small(3), list[TrainJob]()
    own = Recipe(scenario.local_training, 1.6, True, judge="choosing")
    protected = Recipe(LocalTraining(batch=80, record_clip=CLIP, sampling="full"))

    def metric(recipe: Recipe, _: str) -> float:
        return 0.5 + 0.1 * (recipe.momentum > 0) - 0.01 * abs(recipe.step - 0.4)

    found = answered(best_free(scenario, own, protected, 8), trained(metric, done))
    assert {task.recipe.judge for task in done if task.recipe} == {"choosing"}
    assert found.momentum == 0.9
    assert found.step == pytest.approx(0.4)
    assert found.local_training.sampling == "full"
    assert found.local_training.record_clip == 1e6, "nothing is clipped"
    averaged = answered(
        best_free(scenario, own, protected, 8),
        trained(lambda recipe, _: recipe.averaging + 0.01 * recipe.step, done),
    )
    assert averaged.averaging == 0.95
    assert averaged.step == pytest.approx(6.4)
    helped = replace(protected, centring=0.3, warm_start=WarmStart(9, 0.1))
    centred = answered(
        best_free(scenario, own, helped, 8),
        trained(lambda recipe, _: metric(recipe, "") + 0.1 * (recipe.centring == 0.3), done),
    )
    assert (centred.centring, centred.warm_start) == (0.3, None)
    assert centred.momentum == 0.9
    begun: list[TrainJob] = []
    warm = answered(
        best_free(scenario, own, helped, 8),
        trained(lambda recipe, _: float(recipe.warm_start is not None), begun),
    )
    assert warm.warm_start == WarmStart(9, 0.1)
    most = AVERAGED_TRAININGS + FREE_TRAININGS + REFINED_TRAININGS
    assert len({job.key for job in begun if job.recipe != own}) == most
    clipped = answered(
        best_free(scenario, own, helped, 8),
        trained(lambda recipe, _: float(recipe.local_training.record_clip == CLIP), done),
    )
    assert replace(clipped, server_lr=None, judge="test") == helped, "the protected one itself"
    best = answered(
        best_free(scenario, own, helped, 8),
        trained(lambda recipe, _: float(recipe == own), done),
    )
    assert best == own, "never worse than the own one"
