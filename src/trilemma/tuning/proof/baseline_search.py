"""The unprotected trainings that a proof is compared with, chosen on records that report nothing.

The federation's own way at its best server step, climbed by factors of 2 and then of √2, constant
or falling to zero; and the best of a few others with the freedoms that a protected training has:
all records in a round, clipped one by one or not, a server that averages or has momentum, centred
layers, and a warm start where there are public records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from trilemma.federation.recipe import Recipe
from trilemma.game.job_results import Diverged, Failed, converged
from trilemma.game.jobs import TrainJob

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.federation.training import History
    from trilemma.game.scenario import Scenario

__all__ = [
    "AVERAGED_TRAININGS", "FREE_TRAININGS", "REFINED_TRAININGS", "STEP_TRAININGS", "best_free",
    "best_unprotected", "climb",
]  # fmt: skip

_SEEDS: Final = (1000, 1001, 1002)  # none that utility is reported for
_FARTHEST: Final = 8  # factors of 2 from where a climb starts
_UNCLIPPED: Final = 1e6  # no gradient is so long
_AVERAGING, _MOMENTUM = 0.95, 0.9
_AVERAGED_STEPS: Final = (1.0, 2.0, 4.0)  # over the best step without
_MOMENTUM_STEPS: Final = (0.125, 0.25, 0.5)
_CENTRED_STEPS: Final = (1.0, 2.0)  # over the best step without
_CLIPPED_STEPS: Final = (1.0, 3.0)  # over the step under noise

_CLIMB: Final = (3, _FARTHEST + 2)  # values that a climb by factors of 2 tries, and at most
_FINER: Final = 2  # more that one by √2 tries
STEP_TRAININGS: Final = tuple(len(_SEEDS) * 2 * (steps + _FINER) for steps in _CLIMB)
"""Trainings that `best_unprotected` takes, at least and at most."""
AVERAGED_TRAININGS: Final = len(_SEEDS) * len(_AVERAGED_STEPS)
FREE_TRAININGS: Final = len(_SEEDS) * (len(_MOMENTUM_STEPS) + len(_CLIPPED_STEPS))
REFINED_TRAININGS: Final = len(_SEEDS) * (len(_CENTRED_STEPS) + 1)
"""Trainings that `best_free` takes: as the federation's own, as protected ones, at most more."""

Score = tuple[float, float]
Scores = Callable[[Sequence[float]], Generator[Sequence[Any], list[Any], list[Score]]]
"""The procedure that finds the scores of some values."""


def best_unprotected(scenario: Scenario, rounds: int) -> Procedure[Recipe]:
    """The federation's own training at its best server step, constant or falling."""

    def recipe(step: float, decay: bool) -> Recipe:
        return Recipe(scenario.local_training, step, decay, False, "choosing")

    def at(decay: bool) -> Scores:
        def scores(steps: Sequence[float]) -> Procedure[list[Score]]:
            own = [recipe(step, decay) for step in steps]
            return _scores(
                [[TrainJob("none", seed, rounds, item) for seed in _SEEDS] for item in own]
            )

        return scores

    found, step = [], _usual_step(scenario)
    for decay in (False, True):  # a falling step is best near the best constant one
        step = yield from climb(at(decay), step, 2.0)
        step = yield from climb(at(decay), step, math.sqrt(2), farthest=1)
        (score,) = yield from at(decay)([step])
        found.append((score, recipe(step, decay)))
    return max(found, key=lambda pair: pair[0])[1]


def best_free(
    scenario: Scenario, own: Recipe, protected: Recipe, rounds: int
) -> Procedure[Recipe]:
    """The best unprotected training: the own, one that averages, one with momentum, one clipped.

    With momentum clients train as those of a proof do, but nothing is clipped; the clipped one is
    the `protected` recipe without noise. The best of the others is tried with that recipe's
    centred layers and warm start.
    """
    training = protected.local_training
    if training.algorithm == "fedsgd":
        training = replace(training, record_clip=_UNCLIPPED)
    share = training.batch / (sum(map(len, scenario.records)) / len(scenario.records))
    scale = share if training.sampling == "full" else 1.0
    recipes = [
        own,
        *(
            replace(own, server_lr=own.step * factor, server_decay=False, averaging=_AVERAGING)
            for factor in _AVERAGED_STEPS
        ),
        *(
            Recipe(
                training,
                own.step * factor * scale,
                equal_weights=True,
                judge="choosing",
                momentum=_MOMENTUM,
            )
            for factor in _MOMENTUM_STEPS
        ),
    ]
    best = yield from _best(recipes, rounds)
    if protected.centring is not None:
        steps = (best[1].step * factor for factor in _CENTRED_STEPS)
        tried = [replace(best[1], server_lr=s, centring=protected.centring) for s in steps]
        best = yield from _best(tried, rounds, best)
    if protected.warm_start is not None:
        tried = [replace(best[1], warm_start=protected.warm_start)]
        best = yield from _best(tried, rounds, best)
    tried = [
        replace(protected, server_lr=protected.step * factor, judge="choosing")
        for factor in _CLIPPED_STEPS
    ]
    best = yield from _best(tried, rounds, best)
    return best[1]


def _best(
    recipes: Sequence[Recipe], rounds: int, before: tuple[Score, Recipe] | None = None
) -> Procedure[tuple[Score, Recipe]]:
    """The best recipe with its score, the one `before` if none is better."""
    scores = yield from _scores(
        [[TrainJob("none", seed, rounds, recipe) for seed in _SEEDS] for recipe in recipes]
    )
    pairs = list(zip(scores, recipes, strict=True))
    return max([before, *pairs] if before else pairs, key=lambda pair: pair[0])


def climb(
    scores: Scores, start: float, factor: float, *, farthest: int = _FARTHEST
) -> Procedure[float]:
    """The best of start · factorᵏ, k from -1 to 1 and on beyond whichever end is the best."""
    nearest = yield from scores([start / factor, start, start * factor])
    found = dict(zip((-1, 0, 1), nearest, strict=True))
    while True:
        best = max(found, key=lambda place: (found[place], -abs(place)))
        beyond = best + (1 if best > 0 else -1)
        if best == 0 or beyond in found or abs(beyond) > farthest:
            return start * factor**best
        (found[beyond],) = yield from scores([start * factor**beyond])


def _usual_step(scenario: Scenario) -> float:
    training = scenario.local_training
    default = training.lr if training.algorithm == "fedsgd" else 1.0
    return scenario.server_lr or default


def _scores(several: Sequence[Sequence[TrainJob]]) -> Procedure[list[Score]]:
    """The mean metric of each group of trainings, and minus their mean loss to break ties."""
    results = iter((yield [task for tasks in several for task in tasks]))
    return [_score([next(results) for _ in tasks]) for tasks in several]


def _score(trainings: Sequence[History | Failed]) -> Score:
    try:
        histories = converged(trainings)
    except Diverged:
        return -math.inf, -math.inf
    return fmean(history.metric for history in histories), -fmean(
        history.loss for history in histories
    )
