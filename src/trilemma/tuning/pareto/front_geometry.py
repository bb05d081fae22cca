"""Fronts of points to be minimised: who is dominated, the volume covered, the knee, the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["grid_place", "hypervolume", "knee", "non_dominated"]


def non_dominated(points: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Places of the points that no other one dominates (≤ everywhere and < somewhere).

    Equal points do not dominate each other: all of them stay.

    >>> non_dominated([(0, 2), (1, 1), (2, 2), (2, 0), (1, 1)])
    (0, 1, 3, 4)
    """
    if not points:
        return ()
    values = _matrix(points)
    no_worse = (values[:, None] <= values[None]).all(axis=2)
    better = (values[:, None] < values[None]).any(axis=2)
    return tuple(np.flatnonzero(~(no_worse & better).any(axis=0)).tolist())


def hypervolume(points: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """Volume of {y: p ≤ y ≤ reference for some point p}, exactly, by slices along the last axis.

    Points that do not lie below the reference in every coordinate add nothing.

    >>> hypervolume([(0, 0.5), (0.5, 0)], (1, 1))
    0.75
    """
    if not points:
        return 0.0
    corner = np.asarray(reference, dtype=float)
    values = _matrix(points)
    if values.shape[1] != len(corner):
        raise InvalidInput(
            f"the reference point needs {values.shape[1]} coordinates, as the points have, got "
            f"{len(corner)}."
        )
    return _volume(values[(values < corner).all(axis=1)], corner)


def _volume(values: NDArray[np.float64], corner: NDArray[np.float64]) -> float:
    """Σ over slices between consecutive last coordinates: thickness times the slice's volume."""
    if len(values) == 0:
        return 0.0
    if len(corner) == 1:
        return float(corner[0] - values.min())
    ordered = values[np.argsort(values[:, -1], kind="stable")]
    tops = np.append(ordered[1:, -1], corner[-1])
    return sum(
        float(top - low[-1]) * _volume(ordered[: place + 1, :-1], corner[:-1])
        for place, (low, top) in enumerate(zip(ordered, tops, strict=True))
        if top > low[-1]
    )


def knee(points: Sequence[Sequence[float]]) -> int:
    """Place of the point nearest to the utopia point, argmin_p ‖(p - low) / (high - low)‖₂.

    `low`, the utopia point, and `high` are the least and the largest value of each coordinate
    among the points, which should be a front. A coordinate in which they agree counts nothing; of
    equally near points the first is taken.

    >>> knee([(0, 10), (1, 1), (10, 0)])
    1
    """
    if not points:
        raise InvalidInput("a knee needs at least one point.")
    values = _matrix(points)
    low, high = values.min(axis=0), values.max(axis=0)
    scaled = (values - low) / np.where(high > low, high - low, 1.0)
    return int(np.argmin((scaled**2).sum(axis=1)))


def grid_place(number: int) -> float:
    """The number-th strength of an anytime grid on [0, 1]: both ends, then van der Corput's order.

    After n strengths no gap is wider than 4/n, whenever one stops.

    >>> [grid_place(number) for number in range(7)]
    [0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 0.625]
    """
    if number < 2:
        return float(number)
    digits, found, weight = number - 1, 0.0, 0.5
    while digits:
        found += weight * (digits & 1)
        digits, weight = digits >> 1, weight / 2
    return found


def _matrix(points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    values = np.asarray(points, dtype=float)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise InvalidInput(
            f"points need finite coordinates, each point as many as the others, got "
            f"{values.tolist()!r:.80}."
        )
    return values
