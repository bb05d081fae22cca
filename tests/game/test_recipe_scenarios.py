"""Recipes: which records judge, and that a training follows its recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch
from tests.cli.own_scenario import small
from torch import nn

from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import WarmStart
from trilemma.game.job_results import Failed, decode, encode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import CostJob, TrainJob
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied, judged_records
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.records import Records

OWN = Recipe(LocalTraining(batch=1), 0.1, server_decay=False, equal_weights=False)


def rows(records: Records) -> set[bytes]:
    return {item.numpy().tobytes() for item in records.inputs}


def test_one_half_chooses_and_the_other_reports_where_the_test_set_is_all_there_is() -> None:
    scenario = small()
    choosing = judged_records(scenario, "choosing")
    reporting = judged_records(scenario, "reporting")
    assert (len(choosing), len(reporting)) == (20, 20)
    assert not rows(choosing) & rows(reporting)
    assert rows(choosing) | rows(reporting) == rows(scenario.test_records)
    assert judged_records(scenario, "test") is scenario.test_records


def test_public_records_choose_and_the_whole_test_set_reports() -> None:
    scenario = small()
    public = Records(torch.rand(11, 6), torch.randint(0, 3, (11,)))
    scenario = replace(scenario, public=public)
    assert rows(judged_records(scenario, "choosing")) == rows(public[torch.arange(0, 11, 2)])
    assert judged_records(scenario, "reporting") is scenario.test_records


def test_a_single_public_record_cannot_be_halved() -> None:
    scenario = replace(small(), public=Records(torch.rand(1, 6), torch.zeros(1).long()))
    with pytest.raises(InvalidInput, match="there are 1; give the scenario more"):
        judged_records(scenario, "choosing")


def test_a_recipe_changes_training_and_judge_and_leaves_the_public_records() -> None:
    scenario = small()
    local = LocalTraining(batch=2, record_clip=0.5, sampling="poisson")
    made = applied(Recipe(local, 3.0, True, True, "choosing"), scenario)
    assert made.local_training == local
    assert (made.server_lr, made.server_decay) == (3.0, True)
    assert rows(made.test_records) == rows(judged_records(scenario, "choosing"))
    assert rows(made.public_records) == rows(scenario.test_records)


def test_no_two_recipes_share_a_text() -> None:
    recipes = [
        OWN,
        replace(OWN, server_lr=0.2),
        replace(OWN, server_decay=True),
        replace(OWN, equal_weights=True),
        replace(OWN, judge="choosing"),
        replace(OWN, threshold=2),
        replace(OWN, local_training=LocalTraining(batch=1, record_clip=1.0)),
    ]
    assert len({item.describe() for item in recipes}) == len(recipes)
    keys = {TrainJob("none", 0, 8, item).key for item in [None, *recipes]}
    assert len(keys) == len(recipes) + 1
    assert len({CostJob("none", 8, item).key for item in [None, *recipes]}) == len(keys)


def metrics(recipe: Recipe | None, rounds: int = 8) -> tuple[float, float]:
    work = JobRunner(small, None, 1, 2, 0)()
    history = decode(work(TrainJob("none", 0, rounds, recipe)))
    return history.loss, history.metric


def test_trainings_follow_the_recipe() -> None:
    """The scenario's own recipe is no other training; each change is."""
    assert metrics(OWN) == metrics(None)
    assert metrics(replace(OWN, server_lr=1.0)) != metrics(OWN)
    assert metrics(replace(OWN, server_decay=True)) != metrics(OWN)
    assert metrics(replace(OWN, judge="choosing")) != metrics(OWN)


def test_a_step_that_falls_is_the_constant_one_in_a_single_round() -> None:
    assert metrics(replace(OWN, server_decay=True), rounds=1) == metrics(OWN, rounds=1)


def test_a_step_too_large_is_a_fact_about_the_recipe() -> None:
    work = JobRunner(small, None, 1, 2, 0)()
    found = decode(work(TrainJob("none", 0, 8, replace(OWN, server_lr=1e38))))
    assert isinstance(found, Failed)


def test_rounds_are_timed_under_the_recipe_and_compared_with_the_own_training() -> None:
    work = JobRunner(small, None, 1, 2, 0)()
    clipped = LocalTraining(batch=1, record_clip=0.5, sampling="poisson")
    recipe = Recipe(clipped, 1.0, True, True, threshold=2)
    spec = "randomization:variance=0.01+secret-sharing:max_weight=2"
    found = decode(work(CostJob(spec, 2, recipe)))
    assert found.protected.bits > found.unprotected.bits > 0
    assert found.protected.train != found.unprotected.train, "each has its own local work"


def test_a_scenario_says_that_its_step_falls() -> None:
    made: Scenario = replace(small(), server_decay=True)
    work = JobRunner(made, None, 1, 2, 0)()
    falling = decode(work(TrainJob("none", 0, 8)))
    assert (falling.loss, falling.metric) == metrics(replace(OWN, server_decay=True))


def centred_by(centring: Literal["public"] | float, scenario: Scenario) -> Scenario:
    return applied(replace(OWN, centring=centring), scenario)


def with_public() -> Scenario:
    public = Records(torch.rand(12, 6) + 1, torch.randint(0, 3, (12,)))
    return replace(small(), public=public)


@pytest.mark.parametrize("centring", ["public", 0.4])
def test_a_centred_scenario_starts_from_the_same_functions(
    centring: Literal["public"] | float,
) -> None:
    scenario = with_public()
    made, some = centred_by(centring, scenario), scenario.test_records.inputs
    plain, other = (fresh_weights(value, [0, 1]) for value in (scenario, made))
    mean = scenario.public_records.inputs.mean(0) if centring == "public" else centring
    for one, two in zip(plain, other, strict=True):
        layout = scenario.task.layout
        before, after = layout.unflatten(one), layout.unflatten(two)
        shift = before["0.weight"] @ (torch.zeros(6) + mean)
        assert torch.allclose(after["0.bias"], before["0.bias"] + shift, atol=1e-6)
        hidden = (after["2.bias"] - before["2.bias"]) / before["2.weight"].sum(1)
        assert torch.allclose(hidden, hidden[:1].expand(3), atol=1e-4), "one number"
        assert 0.3 < float(hidden[0]) < 0.7, "a sigmoid's mean"
        outputs = scenario.task.outputs(one, some), made.task.outputs(two, some)
        assert torch.allclose(*outputs, atol=1e-5)


def test_centring_is_refused_where_no_layer_has_a_bias_or_no_record_is_public() -> None:
    with pytest.raises(InvalidInput, match="there are none; give the scenario public="):
        centred_by("public", small())
    bare = replace(
        with_public(),
        model=nn.Sequential(nn.Linear(6, 8, bias=False), nn.Linear(8, 3, bias=False)),
    )
    with pytest.raises(InvalidInput, match="this model has none; leave it out"):
        centred_by("public", bare)


def test_records_that_judge_are_none_on_which_the_server_trains() -> None:
    scenario = with_public()
    made = applied(replace(OWN, judge="choosing", warm_start=WarmStart(1, 0.1)), scenario)
    assert not rows(made.public_records) & rows(made.test_records)
    assert rows(made.public_records) | rows(made.test_records) == rows(scenario.public_records)


def test_a_warm_start_trains_and_learns_from_public_records() -> None:
    draw = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 3, (60,), generator=draw)
    inputs = torch.rand(60, 6, generator=draw)
    inputs[torch.arange(60), labels] += 1.0
    scenario = replace(small(), public=Records(inputs, labels), test=Records(inputs, labels))
    cold, warm = (
        decode(JobRunner(lambda: scenario, None, 1, 2, 0)()(TrainJob("none", 0, 1, recipe)))
        for recipe in (OWN, replace(OWN, warm_start=WarmStart(60, 0.5, 0.9)))
    )
    assert warm.metric > 0.95 > cold.metric + 0.2


@pytest.mark.parametrize(
    ("model", "loss", "training"),
    [
        (nn.BatchNorm1d(4), nn.CrossEntropyLoss(), LocalTraining(batch=4, record_clip=0.3)),
        (nn.BatchNorm1d(4), nn.CrossEntropyLoss(), LocalTraining(batch=1)),
        (
            nn.Identity(),
            nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0])),
            LocalTraining(batch=4, record_clip=0.3),
        ),
    ],
)
def test_what_a_scenario_refuses_no_recipe_brings_in(
    model: nn.Module, loss: nn.Module, training: LocalTraining
) -> None:
    draw = torch.Generator().manual_seed(0)
    records = torch.rand(20, 6, generator=draw), torch.randint(0, 3, (20,), generator=draw)
    net = nn.Sequential(nn.Linear(6, 4), model, nn.Linear(4, 3))
    scenario = Scenario(net, loss, [records], records, LocalTraining(batch=4))
    with pytest.raises(InvalidInput) as first:
        replace(scenario, local_training=training)
    with pytest.raises(InvalidInput) as second:
        applied(Recipe(training, 1.0), scenario)
    assert str(first.value) == str(second.value)


def test_recipes_share_the_task_and_not_each_others_settings() -> None:
    scenario, job = small(), TrainJob("none", 3, 4, replace(OWN, server_lr=0.2))
    work = JobRunner(scenario, None, 1, 1, 0, "rest")()
    alone = decode(work(job))
    clipped = LocalTraining(batch=1, record_clip=0.1)
    decode(work(replace(job, recipe=replace(OWN, local_training=clipped))))
    decode(work(replace(job, recipe=replace(OWN, judge="choosing"))))
    again = decode(JobRunner(small(), None, 1, 1, 0, "rest")()(job))
    assert applied(OWN, scenario).task is scenario.task
    assert encode(decode(work(job))) == encode(alone) == encode(again)
