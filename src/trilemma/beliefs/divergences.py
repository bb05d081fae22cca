"""Divergences between probability vectors: KL, JS and TV (the paper's Notations), in nats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["jensen_shannon", "jensen_shannon_rows", "kullback_leibler", "total_variation"]

_SUM_TOLERANCE: Final = 1e-9
_SERIES_BELOW: Final = 1e-3  # the next term, t⁸/28, is then below 1e-18 of the first


def kullback_leibler(p: ArrayLike, q: ArrayLike) -> float:
    """KL(P‖Q) = Σ p log(p/q), infinite where q = 0 < p.

    >>> kullback_leibler([0.5, 0.5], [0.5, 0.5])
    0.0
    """
    from scipy.special import rel_entr  # heavy: the command line must start without it

    left, right = _pair(p, q)
    return float(rel_entr(left, right).sum())


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> float:
    """JS(P‖Q) = ½ KL(P‖M) + ½ KL(Q‖M), M = (P + Q)/2, in [0, ln 2].

    Evaluated as Σ (mᵢ/2)·φ(tᵢ) with t = (p - q)/(p + q) and
    φ(t) = (1+t) log(1+t) + (1-t) log(1-t), which keeps its relative accuracy when P ≈ Q, where
    the difference of two entropies would cancel.

    >>> round(jensen_shannon([1.0, 0.0], [0.0, 1.0]), 6)
    0.693147
    """
    return float(jensen_shannon_rows(*_pair(p, q)))


def jensen_shannon_rows(
    left: NDArray[np.float64], right: NDArray[np.float64]
) -> NDArray[np.float64]:
    """JS of rows [..., d], which must be probability vectors: nothing is checked."""
    total = left + right
    ratio = np.divide(left - right, total, out=np.zeros_like(total), where=total > 0)
    found: NDArray[np.float64] = (total / 4 * _phi(ratio)).sum(-1)
    return found


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """TV(P‖Q) = ½ Σ |p - q|.

    >>> total_variation([0.75, 0.25], [0.25, 0.75])
    0.5
    """
    left, right = _pair(p, q)
    return float(np.abs(left - right).sum() / 2)


def _phi(t: NDArray[np.float64]) -> NDArray[np.float64]:
    square = t * t
    series = square * (1 + square / 6 * (1 + square * 2 / 5))
    # 0 log 0 = 0, by numpy alone: scipy takes every worker as long to import as a task.
    rise, fall = (np.log1p(value, out=np.zeros_like(t), where=value > -1) for value in (t, -t))
    direct = (1 + t) * rise + (1 - t) * fall
    result: NDArray[np.float64] = np.where(np.abs(t) < _SERIES_BELOW, series, direct)
    return result


def _pair(p: ArrayLike, q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, right = (np.asarray(v, dtype=np.float64) for v in (p, q))
    if left.shape != right.shape or left.ndim != 1 or left.size == 0:
        raise InvalidInput(
            f"two probability vectors of one length are needed, got shapes "
            f"{left.shape} and {right.shape}."
        )
    for vector in (left, right):
        if not np.isfinite(vector).all() or (vector < 0).any():
            raise InvalidInput(
                f"a probability vector must be finite and not negative, got {vector.min():g} to "
                f"{vector.max():g}."
            )
        if abs(vector.sum() - 1) > _SUM_TOLERANCE:
            raise InvalidInput(f"a probability vector must sum to 1, got {vector.sum():.12g}.")
    return left, right
