"""Departures that only an attack can show: E7, E16 and E17 on the embedded digits."""

from __future__ import annotations

import pytest
import torch

from trilemma.attacks import View, get
from trilemma.beliefs.recovery import Criterion
from trilemma.estimation.models import prepare_models
from trilemma.estimation.recovering.recoveries import measure
from trilemma.estimation.recovering.units import Measurement, draw_unit
from trilemma.learning import client_update
from trilemma.observations import Observation
from trilemma.paper.bounds import Constants
from trilemma.paper.estimating import choose_criterion, constants_of
from trilemma.paper.mechanisms import MECHANISMS
from trilemma.paper.mechanisms.base import Form
from trilemma.paper.profile import Profile
from trilemma.paper.solving import solve
from trilemma.protections.specs import parse_protection
from trilemma.scenarios import load_scenario
from trilemma.tuning.problem import Problem

TWENTY = Criterion("psnr", 20.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "form", "spec"),
    [
        ("randomization", "tight", "randomization:variance={}"),
        ("compression", "corrected", "compression:drop={}"),
    ],
)
def test_e07_the_attack_recovers_everything_at_the_papers_optimum(
    mechanism: str, form: Form, spec: str
) -> None:
    scenario = load_scenario("digits-mlp", clients=4, batch=1)
    _, control = measure(scenario, Measurement(units=8), TWENTY)
    estimated = constants_of(control, choose_criterion(scenario, TWENTY))
    updates = torch.stack([view.observation.update for view in _views(1, 60)])
    constants = Constants(estimated.c1.value, estimated.ratio.c2_smoothed)
    profile = Profile.of(updates.numpy())
    solution = solve(MECHANISMS[mechanism], constants, Problem(0.3), [profile], form=form)
    assert solution.value is not None
    protection = parse_protection(spec.format(solution.value.distance))
    protected, _ = measure(scenario, Measurement(units=8, protection=protection), TWENTY)
    assert protected is not None
    # The budget of .3 would allow 17 % of the records: 5 of 32.
    assert protected.tagged().sum() >= 30


@pytest.mark.slow
def test_e16_the_attack_at_the_wrong_weights_reports_false_privacy() -> None:
    scenario = load_scenario("digits-mlp", clients=4, batch=1).with_local_training(lr=0.5)
    _, right = measure(scenario, Measurement(units=8), TWENTY)
    _, wrong = measure(scenario, Measurement(units=8, literal=True), TWENTY)
    assert right.tagged().sum() >= 30
    assert wrong.tagged().sum() <= 2


@pytest.mark.slow
def test_e17_a_batch_paired_by_position_hides_most_recoveries() -> None:
    scenario = load_scenario("digits-mlp", clients=4, batch=4)
    views = _views(4, 24)
    found = get("dlg")(views, restarts=3, seed=1).inputs
    asked = Measurement(units=6)
    records = torch.stack([draw_unit(scenario, asked, n).records.inputs for n in range(24)])
    matched = TWENTY.match(found, records, scenario.input_spec).recovered
    placed = TWENTY.match(found, records, scenario.input_spec, by_position=True).recovered
    assert matched.double().mean() > 0.8
    assert placed.double().mean() < 0.45  # a random order hits a quarter of the places


def _views(batch: int, count: int) -> list[View]:
    scenario = load_scenario("digits-mlp", clients=4, batch=batch)
    asked = Measurement(units=-(-count // 4))
    prepared = prepare_models(scenario, range(count))
    views = []
    for number in range(count):
        records = draw_unit(scenario, asked, number).records
        training = scenario.local_training
        update = client_update(
            scenario.task, prepared[number], records.inputs, records.labels, training
        )
        views.append(
            View(
                scenario.task,
                prepared[number],
                Observation(update),
                training,
                scenario.input_spec,
            )
        )
    return views
