import numpy as np
import pytest

from trilemma.beliefs.blind_guess import blind_guess, default_threshold
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.records.range import InputSpec

UNIT = InputSpec((2,), 0.0, 1.0)


def clusters(weights: list[float], size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Records at far apart corners of [0, 1]^16, corner j with probability weights[j]."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(weights), size, p=weights)
    corners = np.random.default_rng(99).integers(0, 2, (len(weights), 16)).astype(float)
    return corners[labels], labels


def test_the_heaviest_cluster_is_found_and_both_limits_cover_its_mass() -> None:
    weights = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
    covered = 0
    for seed in range(40):
        pool, labels = clusters(weights, 300, seed)
        found = blind_guess(pool, labels, UNIT, threshold=20.0, entropy=Seeded(seed))
        covered += found.low <= 0.5 <= found.high
        assert abs(found.rate - 0.5) < 0.15
    # Each limit holds with probability 0.95, so both do with 0.9 or more.
    assert covered >= 34


def test_the_upper_limit_covers_a_guess_that_lies_between_the_records() -> None:
    # 16 records on a sphere around a centre that is no record: the centre passes for all of them,
    # though no record passes for another.
    radius = np.sqrt(16 * 10 ** (-20 / 10)) * 0.99
    pool = 0.5 + radius * np.eye(16)
    found = blind_guess(np.tile(pool, (20, 1)), None, UNIT, threshold=20.0, entropy=Seeded(0))
    assert found.high == 1.0


def test_distinct_records_cannot_be_guessed() -> None:
    pool = np.random.default_rng(0).uniform(size=(400, 64))
    found = blind_guess(pool, None, UNIT, threshold=20.0, entropy=Seeded(0))
    assert (found.successes, found.low) == (0, 0.0)
    assert 0 < found.high < 0.02


def test_the_default_threshold_is_the_lowest_that_no_guess_passes() -> None:
    rng = np.random.default_rng(1)
    # Spread 0.07 around one image: PSNR of the mean is about 23 dB.
    close = np.clip(0.5 + rng.normal(0, 0.07, (600, 400)), 0, 1)
    assert default_threshold(close, None, UNIT, entropy=Seeded(0)).threshold == 25.0
    spread = rng.uniform(size=(600, 64))
    assert default_threshold(spread, None, UNIT, entropy=Seeded(0)).threshold == 20.0
    same = np.full((600, 64), 0.5)
    worst = default_threshold(same, None, UNIT, entropy=Seeded(0))
    assert (worst.threshold, worst.rate) == (30.0, 1.0)


def test_a_large_pool_is_thinned_and_keeps_its_labels() -> None:
    pool, labels = clusters([0.5, 0.5], 5000, 0)
    found = blind_guess(pool, labels, UNIT, threshold=20.0, entropy=Seeded(1))
    assert found.trials == 2000
    assert found.low < 0.52 < found.high + 0.1


def test_a_pool_needs_records() -> None:
    with pytest.raises(InvalidInput, match="at least 4"):
        blind_guess(np.zeros((2, 3)), None, UNIT, threshold=20.0, entropy=Seeded(0))
