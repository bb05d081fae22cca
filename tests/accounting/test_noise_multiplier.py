"""z against every set of survivors, by enumeration."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from trilemma.accounting.noise_calibration import success_bound
from trilemma.accounting.noise_multiplier import Cohort
from trilemma.accounting.sampled_training import Training
from trilemma.errors import InvalidInput


def least_by_enumeration(cohort: Cohort, variance: float, k: int) -> float:
    clients = range(len(cohort.weights))
    found = math.inf
    for size in range(cohort.threshold, len(cohort.weights) + 1):
        for survivors in combinations(clients, size):
            if k not in survivors:
                continue
            others = [j for j in survivors if j != k]
            for curious in combinations(others, min(cohort.helpers, len(others))):
                honest = set(survivors) - set(curious)
                noise = math.sqrt(sum(cohort.weights[j] ** 2 * variance for j in honest))
                moved = cohort.weights[k] * cohort.record_clip / cohort.denominators[k]
                found = min(found, noise / moved)
    return found


@pytest.mark.parametrize("helpers", [0, 1, 2])
@pytest.mark.parametrize("threshold", [3, 5, 6])
def test_the_least_over_survivors_and_helpers(threshold: int, helpers: int) -> None:
    rng = np.random.default_rng(10 * threshold + helpers)
    weights, sizes = rng.uniform(0.2, 2, 6).tolist(), rng.uniform(1, 9, 6).tolist()
    variance = rng.uniform(0.1, 3)
    cohort = Cohort(tuple(weights), tuple(sizes), 0.7, threshold, helpers)
    expected = [least_by_enumeration(cohort, variance, k) for k in range(6)]
    assert cohort.noise_multipliers(variance) == pytest.approx(expected, rel=1e-12)


def test_equal_weights_in_closed_form_and_a_message_alone() -> None:
    cohort = Cohort.equal(clients=10, denominator=4, record_clip=0.5, threshold=7, helpers=1)
    variance = cohort.variance_for(0.61)
    assert variance == pytest.approx((0.61 * 0.5 / 4) ** 2 / 6, rel=1e-12)
    assert min(cohort.noise_multipliers(variance)) >= 0.61
    alone = Cohort.alone(denominator=4, record_clip=0.5)
    assert alone.noise_multipliers(0.01) == pytest.approx((4 * 0.1 / 0.5,))


def test_noise_made_for_ten_survivors_proves_less_with_seven() -> None:
    def equal(threshold: int) -> Cohort:
        return Cohort.equal(clients=10, denominator=4, record_clip=0.5, threshold=threshold)

    variance = equal(10).variance_for(0.52)
    proved = [
        success_bound(
            Training(150, 4 / 150, min(equal(t).noise_multipliers(variance)), "secret"), 100
        )
        for t in (10, 7)
    ]
    assert proved == pytest.approx([0.206, 0.377], abs=1e-3)


def test_a_client_of_large_weight_is_the_worst_off() -> None:
    """Noise that is enough for equal weights is not for the weight that counts twice."""
    equal = Cohort.equal(clients=5, denominator=4, record_clip=1.0, threshold=5)
    variance = equal.variance_for(1.0)
    uneven = Cohort((2.0, 1.0, 1.0, 1.0, 1.0), (4.0,) * 5, 1.0, threshold=5)
    assert min(uneven.noise_multipliers(variance)) < 1.0
    assert min(uneven.noise_multipliers(uneven.variance_for(1.0))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": ()}, "one weight"),
        ({"denominators": (1.0,)}, "one weight"),
        ({"weights": (1.0, 0.0)}, "weights"),
        ({"record_clip": 0.0}, "record_clip"),
        ({"threshold": 3}, "threshold"),
        ({"helpers": 2}, "raise the threshold"),
    ],
)
def test_a_cohort_checks_itself(changes: dict[str, object], message: str) -> None:
    good = {"weights": (1.0, 1.0), "denominators": (4.0, 4.0), "record_clip": 1.0, "threshold": 2}
    with pytest.raises(InvalidInput, match=message):
        Cohort(**(good | changes))  # type: ignore[arg-type]


def test_what_a_cohort_is_asked_is_checked() -> None:
    cohort = Cohort.equal(clients=3, denominator=1, record_clip=1, threshold=2)
    with pytest.raises(InvalidInput, match="variance"):
        cohort.noise_multipliers(0.0)
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        cohort.variance_for(0.0)
