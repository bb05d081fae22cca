"""The search finds the best of settings whose trainings are a known function of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from tests.commands.own_scenario import small
from torch.nn.functional import cross_entropy

from trilemma.estimation.jobs import Job, TrainJob
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.scenario import Scenario
from trilemma.federation.recipe import Recipe
from trilemma.learning import LocalTraining
from trilemma.tuning.certificate.proof import Proof
from trilemma.tuning.certificate.searching import (
    best_clip,
    best_unprotected,
    climb,
    usual_norm,
)
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.work.replay import Ask


def trained(metric: Callable[[Recipe, str], float | None], done: list[TrainJob]) -> Ask:
    """Answers as trainings whose metric is this function of recipe and protection."""

    def ask(tasks: Sequence[Job]) -> list[bytes]:
        made = []
        for task in tasks:
            assert isinstance(task, TrainJob)
            assert task.recipe is not None
            done.append(task)
            value = metric(task.recipe, task.protection)
            last = {"number": 7, "clients": [0, 1], "loss": 0.0, "metric": value}
            found = {
                "rounds": [last],
                "client_metrics": [value] * 2,
                "one_by_one": None,
                "scores": None,
                "client_scores": [None] * 2,
            }
            made.append(json.dumps({"diverged": "why"} if value is None else found).encode())
        return made

    return ask


def proof(**settings: object) -> Proof:
    return Proof.of(Plan.of(small(3), Request(knows="anyone", **settings)), "secret-sharing")


@pytest.mark.parametrize("peak", [1e-3, 0.3, 1.0, 5.0, 200.0])
def test_a_climb_ends_on_the_nearest_power(peak: float) -> None:
    tried: list[float] = []

    def scores(places: Sequence[float]) -> list[tuple[float, float]]:
        tried.extend(places)
        return [(-abs(math.log(place / peak)), 0.0) for place in places]

    found = climb(scores, 1.0, 2.0)
    nearest = 2.0 ** max(-8, min(8, round(math.log2(peak))))
    assert found == pytest.approx(nearest)
    assert len(tried) == len(set(tried)), "no setting is trained twice"


def test_ties_stay_near_the_start_and_failures_lose() -> None:
    assert climb(lambda places: [(0.0, 0.0)] * len(places), 3.0, 2.0) == 3.0

    def broken_above(places: Sequence[float]) -> list[tuple[float, float]]:
        return [(-math.inf, 0.0) if place > 1.5 else (place, 0.0) for place in places]

    assert climb(broken_above, 1.0, 2.0) == 1.0


def test_clip_and_step_are_found_where_trainings_are_best() -> None:
    scenario, done = small(3), list[TrainJob]()
    norm = usual_norm(scenario)

    def metric(recipe: Recipe, _: str) -> float:
        clip = recipe.local_training.record_clip
        assert clip is not None
        move = recipe.step * clip
        return 1 - abs(math.log(clip / (0.3 * norm))) - abs(math.log(move / norm))

    found = best_clip(trained(metric, done), proof(), scenario, 8)
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
    found = best_unprotected(trained(metric, done), small(), 8)
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
