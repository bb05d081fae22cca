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

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.recipe import Recipe
from trilemma.federation.server_parts import WarmStart
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning.modules import read_by_layers
from trilemma.records.range import InputSpec

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.records.parts import Part
    from trilemma.tuning.request import Request

__all__ = [
    "CLIP",
    "LENGTH",
    "Fixed",
    "clip_of",
    "how_chosen",
    "kept_clip",
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
_CLIPPED: Final = 32  # gradients of a model whose median norm is taken
_NEARER: Final = 8  # steps to the tolerance
_FIRST, _MOST = 0.1, 10.0


@dataclass(frozen=True)
class Fixed:
    """What a user fixed of a recipe (None: the rule's choice), or that all is `kept` as it is.

    `warm_start` is a number of steps, 0 for none; `centring` "none" is none.
    """

    kept: bool = False
    clip: float | None = None
    server_step: float | None = None
    momentum: float | None = None
    warm_start: int | None = None
    public_weight: float | None = None
    centring: Literal["public", "none"] | float | None = None

    @classmethod
    def of(cls, request: Request) -> Fixed:
        """What the request says of it."""
        names = [field.name for field in fields(cls) if field.name != "kept"]
        return cls(request.recipe == "keep", **{name: getattr(request, name) for name in names})

    @property
    def described(self) -> str:
        """What was fixed, in words; "" for nothing."""
        named = {
            field.name.replace("_", " "): getattr(self, field.name)
            for field in fields(self)
            if field.name != "kept"
        }
        return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


_NOTHING: Final = Fixed()


def recipe_under_noise(
    scenario: Scenario,
    training: LocalTraining,
    noise: float,
    *,
    rounds: int,
    clip: float | None = None,
    threshold: int | None = None,
    fixed: Fixed = _NOTHING,
) -> Recipe:
    """The recipe for clients that train so, clipped to `clip` (None: `clip_of`), under this noise.

    `noise` is σ, the deviation of a round's mean in units of the clip: z / (S √(h K)) for noise
    multiplier z, K clients with denominator S and h noises that count. Public records of the
    scenario start the model, centre it and make a tenth of each step. Without any, it is centred
    by zero, or by 0.3 of a range that begins there or above. What is `fixed` is as the user wants
    it; where all is kept, the server's step is the scenario's own.
    """
    common: dict[str, Any] = {"equal_weights": True, "threshold": threshold, "rounds": rounds}
    gradients, length = training.algorithm == "fedsgd", clip_of(training) if clip is None else clip
    if fixed.kept:
        own = scenario.server
        recipe = Recipe(training, own.step, own.decay, **common)
    else:
        public, bearable = scenario.public is not None, tolerance(scenario)
        warms = public if fixed.warm_start is None else fixed.warm_start > 0
        step, momentum = step_under_noise(
            *(bearable, noise, rounds),
            share=_WARM_SHARE if warms else 1.0,
            momentum=fixed.momentum,
        )
        recipe = Recipe(
            training,
            server_lr=step * (1 - momentum) / length,
            server_decay=True,
            momentum=momentum,
            warm_start=_warm_start(scenario, _WARM_STEPS) if public else None,
            public_weight=_PUBLIC_WEIGHT if public and gradients else 0.0,
            centring=_centring(scenario) if gradients else None,
            **common,
        )
    return _as_fixed(recipe, scenario, fixed)


def _as_fixed(recipe: Recipe, scenario: Scenario, fixed: Fixed) -> Recipe:
    """The recipe with what was fixed in place of the rule's choice."""
    if scenario.public is None:
        for name in ("warm_start", "public_weight"):
            if getattr(fixed, name):
                raise InvalidInput(
                    f"{name}={getattr(fixed, name)} is for public records, and the scenario has "
                    "none; give it public=..., or leave the setting out."
                )
        if fixed.centring == "public":
            raise InvalidInput(
                "centring='public' is for public records, and the scenario has none; give it "
                "public=..., or a number as centring."
            )
    changes: dict[str, Any] = {}
    if fixed.server_step is not None:
        changes["server_lr"] = fixed.server_step
    if fixed.momentum is not None:
        changes["momentum"] = fixed.momentum
    if fixed.public_weight is not None:
        changes["public_weight"] = fixed.public_weight
    if fixed.centring is not None:
        changes["centring"] = None if fixed.centring == "none" else fixed.centring
    if fixed.warm_start is not None:
        steps = fixed.warm_start
        changes["warm_start"] = _warm_start(scenario, steps) if steps else None
    return replace(recipe, **changes)


def _warm_start(scenario: Scenario, steps: int) -> WarmStart:
    return WarmStart(steps, _WARM_RATE * tolerance(scenario), _WARM_MOMENTUM)


def clip_of(training: LocalTraining) -> float:
    """C: of a record's gradient `CLIP`, of a change of weights as much for each unit of its rate.

    >>> from trilemma.learning import LocalTraining
    >>> clip_of(LocalTraining()), clip_of(LocalTraining("fedavg", lr=0.5, steps=3))
    (0.1, 0.05)
    """
    if training.algorithm == "fedavg":
        return CLIP * training.lr
    return training.record_clip or CLIP


@lru_cache(maxsize=1)
def kept_clip(scenario: Scenario) -> float:
    """C where the federation's own training is kept: its own, or the median norm of a gradient.

    That is over public records (the test set, where there are none) at fresh models; of a change
    of weights it is the norm times rate and steps. No client's record is read.
    """
    own, task = scenario.local_training, scenario.task
    if own.record_clip is not None:
        return own.record_clip
    public = scenario.public_records
    some = public[torch.arange(min(_CLIPPED, len(public)))].to(scenario.device)
    gradient = task.way.grad(task.mean_loss)
    norms = [
        float(gradient(weights, x[None], y[None]).norm())
        for weights in fresh_weights(scenario, range(_MODELS))
        for x, y in zip(some.inputs, some.labels, strict=True)
    ]
    scale = own.lr * own.steps if own.algorithm == "fedavg" else 1.0
    return scale * median(norms)


def step_under_noise(
    tolerance: float,
    noise: float,
    rounds: int,
    *,
    share: float = 1.0,
    length: float = LENGTH,
    momentum: float | None = None,
) -> tuple[float, float]:
    """The first step times the clip, and the momentum β, of which v ← βv + (1 - β)u moves by it.

    A `momentum` that is given stays.

    >>> step_under_noise(1.0, 0.005, 150)
    (28.28..., 0.50...)
    """
    noisiest = share * tolerance * 3**0.5 / (noise * rounds**0.5)
    longest = length * tolerance
    if momentum is None:
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
    torch.cuda.empty_cache()  # of a GPU: outputs of a large vocabulary, whose room workers need
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


def how_chosen(recipe: Recipe, fixed: Fixed = _NOTHING) -> str:
    """By what the recipe was chosen, and what it takes from public records, in words."""
    what = "Clip, step and momentum" if recipe.momentum else "Clip and step"
    said = (
        f"{what} are those of a rule that was made on other data sets: the noise that all rounds "
        "leave would move a fresh model's outputs by about one. No client's record chose anything."
    )
    if fixed.kept:
        said = (
            "Batch, step and schedule are the federation's own; a record's gradient is clipped to "
            "the median norm at fresh models, unless the federation clips already."
        )
    parts = {
        "start the model": recipe.warm_start is not None,
        "centre its layers": recipe.centring == "public",
        f"make {recipe.public_weight:g} of each step": recipe.public_weight > 0,
    }
    used = [part for part, holds in parts.items() if holds]
    given = f" Fixed by the request: {fixed.described}." if fixed.described else ""
    return f"{said}{given}" + (f" Public records {', '.join(used)}." if used else "")


def _records_at_random(spec: InputSpec) -> torch.Tensor:
    """Inputs [128, *shape] of the range: uniform tokens, uniform from zero on, else normal."""
    draw, shape = Seeded(0).torch_generator("records"), (_RECORDS, *spec.shape)
    if spec.parts:
        rows = [_part_at_random(part, draw) for part in spec.parts]
        return torch.cat(rows, 1)
    if spec.vocabulary is not None:
        return torch.randint(spec.vocabulary, shape, generator=draw)
    if _is_standardised(spec):
        normal = torch.randn(shape, generator=draw) * min(1.0, (spec.high - spec.low) / 4)
        return spec.settled(normal) if spec.columns else normal
    return spec.low + (spec.high - spec.low) * torch.rand(shape, generator=draw)


def _part_at_random(part: Part, draw: torch.Generator) -> torch.Tensor:
    """One input of several, [128, size], in its own range."""
    shape = (_RECORDS, part.size)
    if part.whole:
        return torch.randint(int(part.low), int(part.high) + 1, shape, generator=draw)
    return part.low + (part.high - part.low) * torch.rand(shape, generator=draw)


def _is_standardised(spec: InputSpec) -> bool:
    """Whether entries lie about zero, as those of tables do."""
    return bool(spec.columns) or spec.low < 0
