"""Intervals of success rates that fit together: who knows more wins at least as often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trilemma.beliefs.intervals import clopper_pearson
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["envelopes"]


def envelopes(
    won: ArrayLike,
    games: ArrayLike,
    proof: ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """(lower, upper, crossed) [K, Z] of the success rates p[k, z], all valid at once.

    `won` and `games` [K, Z] are counts at K kinds of knowledge, weakest first, and Z strengths,
    least noise first; `proof` [Z] bounds every p[k, z] from above. Without games nothing is known
    of a cell. The cells that have games share 1 - `confidence`: each has a Clopper-Pearson
    interval [l, u] at 1 - (1 - confidence) / cells. Since p rises with k and falls with z,

        upper[k, z] = min{u[k', z'], proof[z'] : k' ≥ k, z' ≤ z},
        lower[k, z] = max{l[k', z']           : k' ≤ k, z' ≥ z}

    hold wherever all intervals do. Where they cross (lower > upper), p is not monotone or above
    its proof, up to 1 - `confidence`: an assumption failed.

    >>> lower, upper, crossed = envelopes([[2, 5], [18, 4]], [[40, 40], [40, 40]])
    >>> upper.round(2).tolist()
    [[0.21, 0.21], [0.65, 0.28]]
    >>> lower.round(2).tolist(), bool(crossed.any())
    ([[0.03, 0.03], [0.26, 0.03]], False)
    """
    right, played = _counts("won", won), _counts("games", games)
    if right.shape != played.shape or right.ndim != 2:
        raise InvalidInput(
            f"envelopes need games won and played by knowledge and strength, two tables of one "
            f"shape; got {right.shape} and {played.shape}."
        )
    lower, upper = np.zeros(right.shape), np.ones(right.shape)
    known = played > 0
    if (right[~known] != 0).any():
        raise InvalidInput("games were won in a cell of envelopes where none was played.")
    share = 1 - (1 - confidence) / max(1, int(known.sum()))
    for cell in zip(*np.nonzero(known), strict=True):
        interval = clopper_pearson(int(right[cell]), int(played[cell]), share)
        lower[cell], upper[cell] = interval.low, interval.high
    if proof is not None:
        upper = np.minimum(upper, _bounds(proof, right.shape[1]))
    upper = np.minimum.accumulate(upper, axis=1)
    upper = np.minimum.accumulate(upper[::-1], axis=0)[::-1]
    lower = np.maximum.accumulate(lower[:, ::-1], axis=1)[:, ::-1]
    lower = np.maximum.accumulate(lower, axis=0)
    return lower, upper, lower > upper


def _counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    counts: NDArray[Any] = np.asarray(values)
    if counts.size == 0 or counts.dtype.kind not in "iu" or counts.min() < 0:
        raise InvalidInput(f"{name} must be whole numbers from 0 on, got {values!r}.")
    return counts.astype(np.int64)


def _bounds(proof: ArrayLike, strengths: int) -> NDArray[np.float64]:
    bounds = np.asarray(proof, dtype=np.float64)
    if bounds.shape != (strengths,) or not ((bounds >= 0) & (bounds <= 1)).all():
        raise InvalidInput(
            f"proof must be one success rate from 0 to 1 for each of {strengths} strengths, "
            f"got {proof!r}."
        )
    return bounds
