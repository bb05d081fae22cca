"""What a setting proves: Gaussian noise on clipped updates or records, and Laplace noise.

- Updates clipped to C behind noise of deviation s in what is read: μ = √R C/s hides a client, and
  a record by `bounds.weight_changes`.
- Records clipped to C in a sum over S: z = s S / C.
- The sparse vector technique, for any change of an update: a round is (ε₁ + ε₂ m/n)-private in its
  choice (all m coordinates may be accepted, at ε₂/n a coordinate) and n times (ε₃/n)-private in
  its values. Pure ε is ε²/2-zCDP, which adds up, and ρ-zCDP is (ρ + 2√(ρ ln 1/δ), δ)-private.

Everything else (clipping, selection, quantisation, the percentile filter) proves nothing.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from trilemma.accounting.guarantee import honest_noises, usual_threshold
from trilemma.accounting.local_steps import client_level, record_level
from trilemma.accounting.noise_calibration import (
    epsilon,
    leakage_supremum,
    noise_multiplier_for,
    success_bound,
)
from trilemma.accounting.sampled_training import Training
from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.errors import InvalidInput
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.protection.transforms.update_clipping import Clipping, ClippingSchedule

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.protection.protection import Protection
    from trilemma.tuning.audit.framework_setting import Run

__all__ = ["DELTA", "Guaranteed", "guarantees", "noise_needed"]

DELTA: Final = 1e-5
Against = Literal["server", "others"]


@dataclass(frozen=True)
class Guaranteed:
    """What is proved of a whole training.

    `against` the server, or `others` who see no more than the models. `success` bounds how often
    the right one of the audit's N candidates is guessed; `leakage` is the largest over all N (of
    Laplace noise that at N).
    """

    against: Against
    level: Literal["record", "client"]
    epsilon: float
    delta: float
    success: float
    leakage: float


def guarantees(
    run: Run, scenario: Scenario, *, rounds: int, candidates: int
) -> tuple[Guaranteed, ...]:
    """What is proved against the server, or against others where the server adds the noise."""
    own = _against(run.sent, run, scenario, rounds, candidates, "server")
    if own or run.trained == run.sent:
        return own
    return _against(run.trained, run, scenario, rounds, candidates, "others")


def _against(
    protection: Protection,
    run: Run,
    scenario: Scenario,
    rounds: int,
    candidates: int,
    against: Against,
) -> tuple[Guaranteed, ...]:
    sparse = [
        transform for transform in protection.transforms if isinstance(transform, SparseVector)
    ]
    if sparse:
        return (_sparse(sparse[0], scenario, rounds, candidates),)
    return tuple(
        Guaranteed(
            against,
            level,
            epsilon(own, DELTA),
            DELTA,
            success_bound(training, candidates),
            leakage_supremum(training)[0],
        )
        for level, training, own in _trainings(protection, run, scenario, rounds, against)
    )


def _trainings(
    protection: Protection, run: Run, scenario: Scenario, rounds: int, against: Against
) -> list[tuple[Literal["record", "client"], Training, Training]]:
    """By level the training as games see it, and as ε counts it, where batches may be secret."""
    found = _gaussian(protection, scenario, run)
    if found is None:
        return []
    deviation, clip, by_record = found
    training = scenario.local_training if run.recipe is None else run.recipe.local_training
    summed = against == "others" or protection.transport.server_reads != "messages"
    ratio = deviation / clip * _shared(run, scenario, summed=summed, against=against)
    if run.count_noise:  # how many were clipped is told with noise besides
        ratio = (ratio**-2 + run.count_noise**-2) ** -0.5
    least = min(len(record) for record in scenario.records)
    q = 1.0 if training.sampling == "full" else min(1.0, training.unit_size / least)
    if by_record:
        z = ratio * training.batch
        known = Training(rounds, q, z, "known")
        secret = training.sampling == "poisson" and q < 1
        return [("record", known, Training(rounds, q, z, "secret") if secret else known)]
    whole = client_level(ratio, rounds)
    steps = training.steps if training.sampling == "poisson" else 1
    one = record_level(ratio, rounds, q=q, steps=steps, participation="known")
    return [("client", whole, whole), ("record", one, one)]


def _gaussian(
    protection: Protection, scenario: Scenario, run: Run
) -> tuple[float, float, bool] | None:
    """Deviation and clip of Gaussian noise, and whether records are clipped, not updates.

    What comes behind the noise changes nothing; before it nothing may stand but the clip.
    """
    training = scenario.local_training if run.recipe is None else run.recipe.local_training
    clip: float | None = None
    for transform in protection.transforms:
        if isinstance(transform, Clipping):
            clip = min(transform.norm, clip or transform.norm)
        elif isinstance(transform, ClippingSchedule) and transform.noise:
            falls = min(b / a for a, b in zip(transform.norms, transform.norms[1:], strict=False))
            return transform.noise * min(1.0, falls), 1.0, False
        elif isinstance(transform, ClippingSchedule):
            continue
        elif isinstance(transform, Randomization):
            clip = transform.clip or clip
            if clip is not None:
                return transform.scale, clip, False
            if training.algorithm == "fedsgd" and training.record_clip is not None:
                return transform.scale, training.record_clip, True
            return None
        else:
            return None
    return None


def _shared(run: Run, scenario: Scenario, *, summed: bool, against: Against) -> float:
    """√(Σ w²) over the honest noises in a sum, over the largest weight: 1 in single messages.

    A sum ends with the threshold's clients, of whom one may help the server. Others than the
    server read the mean with all the noise that the server added for the cohort.
    """
    if not summed:
        return 1.0
    cohort = scenario.per_round
    honest = cohort
    if against == "server":
        threshold = run.threshold or usual_threshold(cohort)
        helpers = 1 if threshold > 1 else 0
        honest = honest_noises("secret-sharing", cohort, threshold, helpers)
    sizes = sorted(len(record) for record in scenario.records)
    return math.sqrt(sum(size**2 for size in sizes[:honest])) / sizes[-1]


def _sparse(made: SparseVector, scenario: Scenario, rounds: int, candidates: int) -> Guaranteed:
    size = scenario.task.layout.size
    first, second, values = made.budgets(size)
    n = made.draws(size)
    choice = first + second * size / n
    rho = rounds * (choice**2 / 2 + n * (values / n) ** 2 / 2)
    smallest = min(rounds * (choice + values), rho + 2 * math.sqrt(rho * math.log(1 / DELTA)))
    success = min(1.0, math.exp(min(smallest, 700.0)) / candidates + DELTA)
    leakage = bernoulli_leakage(success, 1 / candidates)
    return Guaranteed("server", "client", smallest, DELTA, success, leakage)


def noise_needed(run: Run, scenario: Scenario, *, rounds: int, budget: float) -> float | None:
    """By how much the deviation of the noise must grow to keep a leakage; None: nothing proves it.

    1 where it is kept already.
    """
    factors = []
    for _, own, _ in _trainings(run.sent, run, scenario, rounds, "server"):
        with suppress(InvalidInput):  # of a budget that no noise keeps
            least = noise_multiplier_for(budget, rounds=own.rounds, q=own.q)
            factors.append(least / own.noise_multiplier)
    return max(1.0, min(factors)) if factors else None
