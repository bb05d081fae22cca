"""The rule by which a training under noise takes its step, against closed forms and trainings."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.cli.own_scenario import small
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.training import train
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.scenarios import load_scenario
from trilemma.tuning.recipe_rule import (
    CLIP,
    Fixed,
    how_chosen,
    kept_clip,
    recipe_under_noise,
    step_under_noise,
    tolerance,
)

FULL = LocalTraining(batch=80, record_clip=CLIP, sampling="full")


def linear(low: float, high: float, features: int = 40) -> Scenario:
    """A linear model of records that fill this range."""
    draw = torch.Generator().manual_seed(3)
    inputs = low + (high - low) * torch.rand(120, features, generator=draw)
    inputs[:2, 0] = torch.tensor([low, high])
    labels = torch.randint(0, 2, (120,), generator=draw)
    own, test = (TensorDataset(inputs[at], labels[at]) for at in (slice(80), slice(80, 120)))
    return Scenario(nn.Linear(features, 2), cross_entropy, [own], test, LocalTraining())


@pytest.mark.parametrize(
    ("low", "high", "variance"),
    [(0.0, 1.0, 1 / 12), (2.0, 5.0, 9 / 12), (-3.0, 9.0, 1.0), (-1.0, 1.0, 0.25)],
)
def test_a_linear_model_bears_noise_by_its_records_spread(
    low: float, high: float, variance: float
) -> None:
    # Noise e in (W, b) adds e x + e' to an output, of variance e^2 sum_d Var(x_d) over records.
    expected = 1 / math.sqrt(40 * variance)
    assert tolerance(linear(low, high)) == pytest.approx(expected, rel=0.1)


class _Square(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.square()


def test_it_is_found_where_outputs_do_not_grow_with_the_noise_alone() -> None:
    scenario = replace(linear(0.0, 1.0), model=nn.Sequential(nn.Linear(40, 2), _Square()))
    found = tolerance(scenario)
    draw = torch.Generator().manual_seed(1)
    records, moved = torch.rand(500, 40, generator=draw), []
    for weights in fresh_weights(scenario, range(20)):
        noise = found * torch.randn(weights.shape, generator=draw)
        at = [scenario.task.outputs(value, records) for value in (weights, weights + noise)]
        moved.append((at[1] - at[0]).var(0).mean())
    assert float(torch.stack(moved).mean().sqrt()) == pytest.approx(1, rel=0.3)


def test_no_record_of_a_client_moves_the_recipe() -> None:
    """Not even one that lies far beyond the range of all others."""
    scenario = linear(0.0, 1.0)
    (own,) = scenario.records
    inputs = own.inputs.clone()
    inputs[7] = 30.0
    other = replace(scenario, clients=[replace(own, inputs=inputs)])
    assert other.input_spec.high == 30.0
    recipes = {recipe_under_noise(value, FULL, 0.01, rounds=9) for value in (scenario, other)}
    assert len(recipes) == 1


def test_the_noise_left_in_the_weights_is_what_they_bear() -> None:
    step, momentum = step_under_noise(0.5, 0.1, 100)
    assert momentum == 0
    # The deviation of sum_t step (1 - t/R) e_t, e_t of deviation 0.1.
    left = math.sqrt(sum((step * (1 - t / 100) * 0.1) ** 2 for t in range(100)))
    assert left == pytest.approx(0.5, rel=0.01)
    assert step_under_noise(0.5, 0.1, 100, share=0.6)[0] == pytest.approx(0.6 * step)


def test_where_length_limits_the_step_momentum_makes_up_for_it() -> None:
    step, momentum = step_under_noise(1.0, 0.005, 150)
    assert 0 < momentum < 0.8
    assert step * (1 - momentum) == pytest.approx(14.0)
    assert step == pytest.approx(2 * step_under_noise(1.0, 0.01, 150)[0])
    step, momentum = step_under_noise(1.0, 1e-6, 150)
    assert step == pytest.approx(70.0)
    assert momentum == 0.8


def test_public_records_start_centre_and_step() -> None:
    scenario = small(3)
    alone = recipe_under_noise(scenario, FULL, 0.1, rounds=20, threshold=2)
    assert (alone.warm_start, alone.public_weight, alone.rounds, alone.threshold) == (
        None,
        0,
        20,
        2,
    )
    inputs = scenario.test_records.inputs
    low, high = float(inputs.min()), float(inputs.max())
    assert alone.centring == pytest.approx(low + 0.3 * (high - low))
    helped = recipe_under_noise(
        replace(scenario, public=scenario.test_records), FULL, 0.1, rounds=20
    )
    assert helped.needs_public
    assert (helped.centring, helped.public_weight) == ("public", 0.1)
    assert helped.step == pytest.approx(0.6 * alone.step)
    said = "Public records start the model, centre its layers, make 0.1 of each step."
    assert how_chosen(helped) == f"{how_chosen(alone)} {said}"


def test_fedavg_takes_no_public_gradient() -> None:
    training = LocalTraining("fedavg", steps=2, batch=4)
    scenario = replace(small(3), public=small().test_records)
    recipe = recipe_under_noise(scenario, training, 0.1, rounds=20)
    assert recipe.warm_start is not None
    assert recipe.public_weight == 0


def test_models_without_affine_layers_are_not_centred() -> None:
    assert recipe_under_noise(linear(-3.0, 9.0), FULL, 0.1, rounds=5).centring == 0.0
    bare = replace(linear(0.0, 1.0), model=nn.Linear(40, 2, bias=False))
    assert recipe_under_noise(bare, FULL, 0.1, rounds=5).centring is None
    text = recipe_under_noise(load_scenario("text"), FULL, 0.1, rounds=5)
    assert text.centring is None
    assert text.step > 0


def test_what_is_fixed_takes_the_rules_place() -> None:
    scenario = replace(small(3), public=small(3).test_records)
    free = recipe_under_noise(scenario, FULL, 0.1, rounds=20)
    assert free.warm_start is not None
    fixed = Fixed(server_step=2.5, warm_start=7, public_weight=0.0, centring="none")
    recipe = recipe_under_noise(scenario, FULL, 0.1, rounds=20, fixed=fixed)
    assert recipe == replace(
        free,
        server_lr=2.5,
        warm_start=replace(free.warm_start, steps=7),
        public_weight=0.0,
        centring=None,
    )
    said = "Fixed by the request: server step 2.5, warm start 7, public weight 0.0, centring none."
    assert said in how_chosen(recipe, fixed)
    cold = recipe_under_noise(scenario, FULL, 0.1, rounds=20, fixed=Fixed(warm_start=0))
    assert cold.warm_start is None
    assert cold.step == pytest.approx(free.step / 0.6), "all of the noise is borne then"
    steady = recipe_under_noise(scenario, FULL, 1e-4, rounds=20, fixed=Fixed(momentum=0.0))
    long = recipe_under_noise(scenario, FULL, 1e-4, rounds=20)
    assert (steady.momentum, long.momentum) == (0.0, 0.8)
    assert steady.step == pytest.approx(long.step), "as long as a step may be, over (1 - momentum)"


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        (Fixed(warm_start=5), "warm_start=5 is for public records, and the scenario has none"),
        (Fixed(public_weight=0.1), "public_weight=0.1 is for public records"),
        (Fixed(centring="public"), "centring='public' is for public records"),
    ],
)
def test_settings_for_public_records_need_some(fixed: Fixed, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        recipe_under_noise(small(3), FULL, 0.1, rounds=20, fixed=fixed)


def test_what_is_kept_is_the_federations_own() -> None:
    scenario = replace(small(3), server_lr=0.7, server_decay=False, public=small().test_records)
    training = LocalTraining(batch=2, record_clip=1.0, sampling="poisson")
    recipe = recipe_under_noise(scenario, training, 0.1, rounds=20, fixed=Fixed(kept=True))
    assert recipe == Recipe(training, 0.7, False, equal_weights=True, rounds=20)
    assert "Batch, step and schedule are the federation's own" in how_chosen(
        recipe, Fixed(kept=True)
    )
    model, norms = nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 3)), []
    public = scenario.public_records
    for weights in fresh_weights(scenario, range(4)):
        model.load_state_dict(scenario.task.layout.unflatten(weights))
        for x, y in zip(public.inputs[:32], public.labels[:32], strict=True):
            grads = torch.autograd.grad(
                cross_entropy(model(x[None]), y[None]), list(model.parameters())
            )
            norms.append(float(torch.cat([grad.flatten() for grad in grads]).norm()))
    assert kept_clip(scenario) == pytest.approx(sorted(norms)[63:65][0], rel=0.02)
    steps = LocalTraining("fedavg", lr=0.05, steps=4)
    changed = kept_clip(replace(scenario, local_training=steps))
    assert changed == pytest.approx(0.2 * kept_clip(scenario))
    assert kept_clip(replace(scenario, local_training=training)) == 1.0


@pytest.mark.slow
def test_steps_far_from_the_rule_train_worse() -> None:
    scenario, noise = load_scenario("digits"), 0.0116  # 10 clients, leakage 0.3 in 150 rounds
    training = LocalTraining(batch=150, record_clip=CLIP, sampling="full")
    recipe = recipe_under_noise(scenario, training, noise, rounds=150)

    def accuracy(recipe: Recipe) -> float:
        trained = applied(recipe, scenario)
        protection = Protection((Randomization((noise * CLIP) ** 2 * 10),))
        seeds = (0, 1, 2)
        weights = fresh_weights(trained, seeds)
        done = train(trained, protection, recipe, seeds=seeds, weights=weights, real_rounds=0)
        return sum(item.metric for item in done) / len(done)

    best = accuracy(recipe)
    assert best > 0.93
    for factor in (1 / 8, 8):
        assert accuracy(replace(recipe, server_lr=recipe.step * factor)) < best - 0.01
