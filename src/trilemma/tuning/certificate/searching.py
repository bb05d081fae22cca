"""The clip norm and the server steps that train best, on records that report nothing.

Noise that is clipped to C moves the model by step · C a round, and what matters first is that
product: it is climbed by factors of 2, then the clip norm is tried at it, then it is climbed by
√2. The unprotected training's own step is climbed likewise. Under noise the step falls to zero;
without, it does where that trains better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import torch

from trilemma.estimation.jobs import TrainJob
from trilemma.estimation.models import fresh_weights
from trilemma.estimation.results import Diverged, Failed, converged
from trilemma.federation.recipe import Recipe
from trilemma.learning import client_update

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario
    from trilemma.federation.training import History
    from trilemma.tuning.certificate.proof import Proof
    from trilemma.work.scheduler import Procedure

__all__ = [
    "CLIP_TRAININGS", "STEP_TRAININGS", "Chosen", "best_clip", "best_unprotected", "climb",
    "usual_norm",
]  # fmt: skip

_SEEDS: Final = (1000, 1001, 1002)  # none that utility is reported for
_SHARES: Final = (0.03, 0.1, 0.3, 1.0)  # of the usual norm, to clip to
_START: Final = _SHARES[1]
_FARTHEST: Final = 8  # factors of 2 from where a climb starts
_MODELS: Final = 4
_RECORDS: Final = 32  # of the public records at each model

_CLIMB: Final = (3, _FARTHEST + 2)  # values that a climb by factors of 2 tries, and at most
_FINER: Final = 2  # more that one by √2 tries
CLIP_TRAININGS: Final = tuple(
    len(_SEEDS) * (steps + len(_SHARES) - 1 + _FINER) for steps in _CLIMB
)
"""Trainings that `best_clip` takes, at least and at most; the start's share is tried already."""
STEP_TRAININGS: Final = tuple(len(_SEEDS) * 2 * (steps + _FINER) for steps in _CLIMB)
"""Trainings that `best_unprotected` takes."""

Score = tuple[float, float]
Scores = Callable[[Sequence[float]], Generator[Sequence[Any], list[Any], list[Score]]]
"""The procedure that finds the scores of some values."""


@dataclass(frozen=True)
class Chosen:
    """A clip norm and a server step."""

    clip: float
    server_lr: float


@lru_cache(maxsize=1)  # families share it
def usual_norm(scenario: Scenario) -> float:
    """The median norm of one record's gradient (of an update, for FedAvg) at fresh models.

    Of public records, so that no client's record decides it.
    """
    training, public = scenario.local_training, scenario.public_records
    training = replace(training, record_clip=None, sampling="fixed")
    if training.algorithm == "fedsgd":
        training = replace(training, batch=1, records=None)
    own = training.unit_size
    units = max(1, min(_RECORDS, len(public) // own))
    rows = (torch.arange(units * own) % len(public)).reshape(units, own)
    inputs = public.inputs[rows].to(scenario.device)
    labels = public.labels[rows].to(scenario.device)
    norms: list[float] = []
    for weights in fresh_weights(scenario, range(_MODELS)):

        def update(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor = weights) -> torch.Tensor:
            return client_update(scenario.task, at, x, y, training)

        norms += scenario.task.way.vmap(update)(inputs, labels).norm(dim=1).tolist()
    return max(median(norms), torch.finfo(torch.float32).tiny)


def best_clip(proof: Proof, scenario: Scenario, rounds: int) -> Procedure[Chosen]:
    """The clip norm and the server step of the best trainings under the proof's noise.

    The noise alone, without a transport: families that add as much share these trainings.
    """
    norm = usual_norm(scenario)

    def tasks(clip: float, step: float) -> list[TrainJob]:
        spec, recipe = proof.attacked(clip).describe(), proof.recipe(clip, step, "choosing")
        return [TrainJob(spec, seed, rounds, recipe) for seed in _SEEDS]

    def at(clip: float) -> Scores:
        return lambda moves: _scores([tasks(clip, move / clip) for move in moves])

    move = yield from climb(at(_START * norm), _usual_step(scenario) * norm, 2.0)
    clips = [share * norm for share in _SHARES]
    scores = yield from _scores([tasks(clip, move / clip) for clip in clips])
    clip = max(zip(scores, clips, strict=True))[1]
    move = yield from climb(at(clip), move, math.sqrt(2), farthest=1)
    return Chosen(clip, move / clip)


def best_unprotected(scenario: Scenario, rounds: int) -> Procedure[Recipe]:
    """The federation's own training at its best server step, constant or falling."""

    def recipe(step: float, decay: bool) -> Recipe:
        return Recipe(scenario.local_training, step, decay, False, "choosing")

    def at(decay: bool) -> Scores:
        def scores(steps: Sequence[float]) -> Procedure[list[Score]]:
            own = [recipe(step, decay) for step in steps]
            return _scores(
                [[TrainJob("none", seed, rounds, each) for seed in _SEEDS] for each in own]
            )

        return scores

    found = []
    for decay in (False, True):
        step = yield from climb(at(decay), _usual_step(scenario), 2.0)
        step = yield from climb(at(decay), step, math.sqrt(2), farthest=1)
        (score,) = yield from at(decay)([step])
        found.append((score, recipe(step, decay)))
    return max(found, key=lambda each: each[0])[1]


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
    return fmean(each.metric for each in histories), -fmean(each.loss for each in histories)
