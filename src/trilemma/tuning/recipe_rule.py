"""How a federation trains under noise: by a rule that was made on other data sets.

With a small clip C the mean of clipped gradients is one of directions, and a training whose step
falls linearly to zero has one number, s = step · C. A fresh model says what it may be, by ε: noise
of deviation ε in all its weights spreads its outputs over records by 1.

- Over R rounds, noise of deviation σ · C in the mean leaves s σ √(R/3) in each weight. The rule
  lets that be ε, and 0.6 ε after a warm start.
- Steps longer than s = 14 ε do not settle. Where that is the lower limit, momentum makes up for
  it.

`benchmarks/recipe_rule.py` made the numbers, `benchmarks/prices.py` says what trainings by them
reach. Nothing is searched, and no record chooses anything.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import torch

from trilemma.entropy import Seeded
from trilemma.federation.recipe import Recipe, WarmStart
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning.modules import read_by_layers
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.federation.recipe import Judge
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining

__all__ = [
    "CLIP",
    "LENGTH",
    "clip_of",
    "how_chosen",
    "recipe_under_noise",
    "step_under_noise",
    "tolerance",
]

CLIP: Final = 0.1  # of a record's gradient: nearly all are longer
LENGTH: Final = 14.0
_WARM_SHARE: Final = 0.6  # of the noise, after a warm start
_MOMENTUM: Final = 0.8  # at most
_GREY: Final = 0.3  # of the range, which centres images
_WARM_STEPS, _WARM_RATE, _WARM_MOMENTUM = 300, 0.15, 0.9
_PUBLIC_WEIGHT: Final = 0.1
_MODELS, _DIRECTIONS, _RECORDS = 4, 4, 128
_NEARER: Final = 8  # steps to the tolerance
_FIRST, _MOST = 0.1, 10.0


def recipe_under_noise(
    scenario: Scenario,
    training: LocalTraining,
    noise: float,
    *,
    rounds: int,
    threshold: int | None = None,
    judge: Judge = "test",
    deployable: bool = False,
) -> Recipe:
    """The recipe for clients that train so, clipped as `clip_of` says, under this noise.

    `noise` is σ, the deviation of a round's mean in units of the clip: z / (S √(h K)) for noise
    multiplier z, K clients with denominator S and h noises that count. Public records of the
    scenario start the model, centre it and make a tenth of each step. Without any, it is centred
    by zero, or by 0.3 of a range that begins there or above. A `deployable` one has neither these
    nor momentum: a deployment carries the step alone.
    """
    public = scenario.public is not None and not deployable
    bearable = tolerance(scenario)
    share = _WARM_SHARE if public else 1.0
    step, momentum = step_under_noise(bearable, noise, rounds, share=share)
    warm = WarmStart(_WARM_STEPS, _WARM_RATE * bearable, _WARM_MOMENTUM) if public else None
    return Recipe(
        training,
        server_lr=step * (1 - momentum) / clip_of(training),
        server_decay=True,
        equal_weights=True,
        judge=judge,
        threshold=threshold,
        rounds=rounds,
        momentum=0.0 if deployable else momentum,
        warm_start=warm,
        public_weight=_PUBLIC_WEIGHT if public and training.algorithm == "fedsgd" else 0.0,
        centring=None if deployable else _centring(scenario),
    )


def clip_of(training: LocalTraining) -> float:
    """C: of a record's gradient `CLIP`, of a change of weights as much for each unit of its rate.

    >>> from trilemma.learning import LocalTraining
    >>> clip_of(LocalTraining()), clip_of(LocalTraining("fedavg", lr=0.5, steps=3))
    (0.1, 0.05)
    """
    if training.algorithm == "fedavg":
        return CLIP * training.lr
    return training.record_clip or CLIP


def step_under_noise(
    tolerance: float, noise: float, rounds: int, *, share: float = 1.0, length: float = LENGTH
) -> tuple[float, float]:
    """The first step times the clip, and the momentum β, of which v ← βv + (1 - β)u moves by it.

    >>> step_under_noise(1.0, 0.005, 150)
    (28.28..., 0.50...)
    """
    noisiest = share * tolerance * 3**0.5 / (noise * rounds**0.5)
    longest = length * tolerance
    momentum = min(_MOMENTUM, max(0.0, 1 - longest / noisiest))
    return min(noisiest, longest / (1 - momentum)), momentum


@lru_cache(maxsize=1)  # families share it
def tolerance(scenario: Scenario) -> float:
    """ε, the deviation of noise in all weights that spreads a fresh model's outputs by 1.

    The spread is the deviation over records of what the noise adds to an output, in mean squares
    over outputs and models. Records are drawn from the range alone: no client's is read.
    """
    inputs = _records_at_random(_range_of_others(scenario)).to(scenario.device)
    models = fresh_weights(scenario, range(_MODELS))
    deviation = _FIRST
    for _ in range(_NEARER):
        # It grows with the first to second power of the noise, so that gaps shrink to a third.
        ratio = _spread(scenario, models, inputs, deviation) ** (-2 / 3)
        deviation = min(_MOST, deviation * min(4.0, max(0.25, ratio)))
    return deviation


def _spread(
    scenario: Scenario, models: torch.Tensor, inputs: torch.Tensor, deviation: float
) -> float:
    """The deviation over inputs of what noise adds to an output; the same noise in every call."""
    squares = []
    for number, weights in enumerate(models):
        draw = Seeded(0).torch_generator("directions", number)
        with torch.no_grad():
            outputs = scenario.task.outputs(weights, inputs)
            for _ in range(_DIRECTIONS):
                noise = deviation * torch.randn(weights.shape, generator=draw).to(weights)
                moved = scenario.task.outputs(weights + noise, inputs) - outputs
                squares.append(moved.flatten(1).var(0).mean())
    return max(float(torch.stack(squares).mean().sqrt()), 1e-9)


def _range_of_others(scenario: Scenario) -> InputSpec:
    """The range of records that are no client's: the step is published, and tells of it."""
    return InputSpec.of((scenario.public_records,), (scenario.test_records,), scenario.columns)


def _centring(scenario: Scenario) -> Literal["public"] | float | None:
    """What affine layers subtract, if the model has any and records are numbers."""
    spec, task = _range_of_others(scenario), scenario.task
    if spec.discrete:
        return None
    (weights,) = fresh_weights(scenario, [0])
    some = scenario.test_records.inputs[:1].to(scenario.device)
    if not read_by_layers(task.model, task.layout, weights, some):
        return None
    if scenario.public is not None:
        return "public"
    return 0.0 if _is_standardised(spec) else spec.low + _GREY * (spec.high - spec.low)


def how_chosen(recipe: Recipe) -> str:
    """By what the recipe was chosen, and what it takes from public records, in words."""
    what = "Clip, step and momentum" if recipe.momentum else "Clip and step"
    rule = (
        f"{what} are those of a rule that was made on other data sets: the noise that all rounds "
        "leave would move a fresh model's outputs by about one. No client's record chose anything."
    )
    parts = {
        "start the model": recipe.warm_start is not None,
        "centre its layers": recipe.centring == "public",
        f"make {recipe.public_weight:g} of each step": recipe.public_weight > 0,
    }
    used = [part for part, holds in parts.items() if holds]
    return f"{rule} Public records {', '.join(used)}." if used else rule


def _records_at_random(spec: InputSpec) -> torch.Tensor:
    """Inputs [128, *shape] of the range: uniform tokens, uniform from zero on, else normal."""
    draw, shape = Seeded(0).torch_generator("records"), (_RECORDS, *spec.shape)
    if spec.vocabulary is not None:
        return torch.randint(spec.vocabulary, shape, generator=draw)
    if _is_standardised(spec):
        normal = torch.randn(shape, generator=draw) * min(1.0, (spec.high - spec.low) / 4)
        return spec.settled(normal) if spec.columns else normal
    return spec.low + (spec.high - spec.low) * torch.rand(shape, generator=draw)


def _is_standardised(spec: InputSpec) -> bool:
    """Whether entries lie about zero, as those of tables do."""
    return bool(spec.columns) or spec.low < 0
