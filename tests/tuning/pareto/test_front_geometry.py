"""Fronts against brute force: who is dominated, the volume, the knee, the grid's cover."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trilemma.errors import InvalidInput
from trilemma.tuning.pareto.front_geometry import grid_place, hypervolume, knee, non_dominated


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@pytest.mark.parametrize("seed", range(8))
def test_the_non_dominated_set_is_that_of_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [tuple(map(float, row)) for row in draw.integers(0, 6, (40, 3))]  # ties abound
    expected = tuple(
        place
        for place, point in enumerate(points)
        if not any(dominates(other, point) for other in points)
    )
    assert non_dominated(points) == expected
    assert non_dominated([]) == ()


@pytest.mark.parametrize("seed", range(5))
def test_the_hypervolume_is_that_of_inclusion_and_exclusion(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-0.2, 1.2, (9, 3))
    expected = 0.0
    for size in range(1, len(points) + 1):
        for group in itertools.combinations(points, size):
            sides = np.clip(1 - np.max(group, axis=0), 0, None)
            expected -= (-1) ** size * float(sides.prod())
    assert hypervolume(points.tolist(), (1, 1, 1)) == pytest.approx(expected, abs=1e-12)


def test_the_hypervolume_is_that_of_monte_carlo() -> None:
    draw = np.random.default_rng(0)
    points = draw.uniform(0, 1, (60, 3))
    samples = draw.uniform(0, 1, (40_000, 3))
    inside = np.any(np.all(points[None] <= samples[:, None], axis=2), axis=1)
    share = float(np.mean(inside))
    assert hypervolume(points.tolist(), (1, 1, 1)) == pytest.approx(share, abs=0.01)
    front = points[list(non_dominated(points.tolist()))]
    assert hypervolume(front.tolist(), (1, 1, 1)) == pytest.approx(
        hypervolume(points.tolist(), (1, 1, 1))
    ), "dominated points add nothing"


def test_points_beyond_the_reference_add_nothing() -> None:
    assert hypervolume([(2, 0, 0), (0, 1, 0)], (1, 1, 1)) == 0
    assert hypervolume([], (1, 1, 1)) == 0
    with pytest.raises(InvalidInput, match="3 coordinates"):
        hypervolume([(0, 0, 0)], (1, 1))
    with pytest.raises(InvalidInput, match="finite"):
        non_dominated([(0, float("nan"))])


def test_the_knee_of_a_known_front() -> None:
    """On x^½ + y^½ = 1, the point nearest to the origin is that with x = y = ¼; scale is free."""
    x = np.linspace(0, 1, 101)
    front = np.stack([x**2, 1000 * (1 - x) ** 2, np.full_like(x, 7)], axis=1)
    assert knee(front.tolist()) == 50
    with pytest.raises(InvalidInput, match="at least one"):
        knee([])


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 33, 100])
def test_the_grid_covers_whenever_it_is_stopped(count: int) -> None:
    strengths = sorted(grid_place(number) for number in range(count))
    assert len(set(strengths)) == count
    assert (strengths[0], strengths[-1]) == (0, 1)
    assert max(np.diff(strengths)) <= 4 / count, "gaps"
