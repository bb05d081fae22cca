"""What each condition of the claim is worth: without it an attacker beats the bound.

Candidates with orthogonal gradients of equal length, and the exact posterior of an attacker who
knows every other record: the hardest case there is, or nearly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from trilemma.accounting.noise_calibration import success_bound
from trilemma.accounting.noise_multiplier import Cohort
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.learning import LocalTraining

SIZE, GAMES, BATCH, RECORDS = 100, 1200, 4, 150
DIGITS = Training(150, BATCH / RECORDS, noise_multiplier=0.52, participation="secret")
BOUND = success_bound(DIGITS, SIZE)
UNLIKELY = 1e-6


def right_guesses(
    influence: NDArray[np.float64],
    held: NDArray[np.bool_],
    seed: int,
    participation: Participation = "secret",
    noise: float = DIGITS.noise_multiplier,
) -> int:
    """Right guesses of GAMES trainings [GAMES, R] with the record moving a round so much.

    `influence` is that of a record that takes part, as the attacker knows it; `held` says where
    one did. The tagged candidate is the first.
    """
    draw = np.random.default_rng(seed)
    right = 0
    for item, there in zip(influence, held, strict=True):
        seen = draw.normal(scale=noise, size=(len(item), SIZE))
        seen[:, 0] += item * there
        gain = (seen * item[:, None] - item[:, None] ** 2 / 2) / noise**2
        if participation == "known":
            score = gain[there].sum(axis=0)
        else:
            score = np.log1p(DIGITS.q * np.expm1(gain)).sum(axis=0)
        right += int(draw.choice(np.flatnonzero(score == score.max()))) == 0
    return right


def poisson(seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng([seed, 1]).random((GAMES, DIGITS.rounds)) < DIGITS.q


def even(value: float = 1.0) -> NDArray[np.float64]:
    return np.full((GAMES, DIGITS.rounds), value)


def beats(right: int, bound: float = BOUND) -> bool:
    return bool(binom.sf(right - 1, GAMES, bound) < UNLIKELY)


def test_with_every_condition_the_bound_holds_and_is_near() -> None:
    right = right_guesses(even(), poisson(1), 1)
    assert binom.sf(right - 1, GAMES, BOUND) > 0.01
    assert right / GAMES > BOUND / 1.5


def test_noise_made_for_ten_does_not_hold_for_six_honest_survivors() -> None:
    """A round ends with seven of ten, and one of them takes its own noise out."""

    def cohort(threshold: int, helpers: int) -> Cohort:
        return Cohort.equal(
            clients=10, denominator=BATCH, record_clip=1.0, threshold=threshold, helpers=helpers
        )

    variance = cohort(10, 0).variance_for(DIGITS.noise_multiplier)
    left = min(cohort(7, 1).noise_multipliers(variance))
    right = right_guesses(even(), poisson(2), 2, noise=left)
    assert beats(right)
    assert not beats(right, success_bound(Training(150, DIGITS.q, left, "secret"), SIZE))


def test_a_weight_by_records_gives_the_largest_client_too_little_noise() -> None:
    """Noise for equal weights, deployed by records: one client has twice those of the others."""
    equal = Cohort.equal(clients=10, denominator=BATCH, record_clip=1.0, threshold=10)
    variance = equal.variance_for(DIGITS.noise_multiplier)
    weights = (2.0, *(1.0,) * 9)
    largest = Cohort(weights, (float(BATCH),) * 10, 1.0, 10).noise_multipliers(variance)[0]
    assert beats(right_guesses(even(), poisson(3), 3, noise=largest))


def test_a_mean_over_the_number_drawn_moves_by_more_than_a_constant_allows() -> None:
    """Few others in the batch: then the record has most of the mean."""
    held = poisson(4)
    others = np.random.default_rng(5).binomial(RECORDS - 1, DIGITS.q, held.shape)
    assert beats(right_guesses(BATCH / (others + 1.0), held, 4))


def test_batches_of_one_size_tell_who_took_part() -> None:
    """Whoever knows the others counts them: one short of a batch, and the record was in."""
    draw = np.random.default_rng(6)
    held = np.zeros((GAMES, DIGITS.rounds), dtype=bool)
    for row in held:
        for number in range(DIGITS.rounds):
            row[number] = bool((draw.permutation(RECORDS)[:BATCH] == 0).any())
    missing = LocalTraining(batch=BATCH).unit_size - (BATCH - held) == 1
    assert (missing == held).all()
    right = right_guesses(even(), missing, 6, "known")
    assert beats(right)
    known = Training(150, DIGITS.q, DIGITS.noise_multiplier, "known")
    assert not beats(right, success_bound(known, SIZE))


def test_a_retry_with_the_same_batch_is_a_round_more() -> None:
    """Two looks at one batch: as if its noise had half the variance."""
    right = right_guesses(even(), poisson(7), 7, noise=DIGITS.noise_multiplier / math.sqrt(2))
    assert beats(right)


@pytest.mark.parametrize("rounds", [150, 300])
def test_rounds_beyond_those_claimed_are_not_covered(rounds: int) -> None:
    longer = Training(rounds, DIGITS.q, DIGITS.noise_multiplier, "secret")
    assert (success_bound(longer, SIZE) > BOUND) == (rounds > 150)
