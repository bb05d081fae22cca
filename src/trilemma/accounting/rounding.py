"""What fixed point may cost the certificate: the grid after the noise, and the range.

Rounding one noisy message to a grid g is harmless: it touches what is already protected. In a sum
each message is rounded by itself. There the sum of n messages with noise of deviation s has, up to
a remainder, the distribution of round(X + U_1 + … + U_{n-1}), X the sum without rounding and U_i
uniform on a cell: something made from X alone. The remainder is aliasing: the characteristic
functions of the messages, seen on the grid, multiply to that of the sum except for terms of at
most n(n-1) e^{-π² s²/g²} in all. At g ≤ s/3 it is below 1e-38 n². (Rounding before the noise
instead would add g √m to the influence of a record.)

Values outside the range are clamped or wrapped one by one, which no longer is a function of the
sum: the range has to hold the largest Poisson batch and the noise.
"""

from __future__ import annotations

import math
from typing import Final

from scipy.special import ndtri

from trilemma.errors import InvalidInput
from trilemma.quantities import between

__all__ = ["check_grid", "grid_remainder", "range_for"]

_LEAST_DEVIATIONS: Final = 3.0  # of noise a cell


def check_grid(grid: float, deviation: float) -> float:
    """The grid, if it is at most a third of the noise's standard deviation in one message.

    >>> check_grid(1e-4, deviation=0.03)
    0.0001
    """
    _check_positive(grid, deviation)
    if grid * _LEAST_DEVIATIONS > deviation:
        raise InvalidInput(
            f"a grid of {grid:g} is too coarse for noise of standard deviation {deviation:g} a "
            f"message; use at most {deviation / _LEAST_DEVIATIONS:g}."
        )
    return grid


def grid_remainder(
    grid: float, deviation: float, *, messages: int, coordinates: int, rounds: int
) -> float:
    """What rounding each of n messages may add to any success rate over the whole training.

    R m e^{-π²ρ} (n² (9 √n ρ + n + 1) + 2) with ρ = s²/g² ≥ ½: the aliasing bound times the
    points of the grid within √(2π²ρ) deviations, and what lies outside.

    >>> grid_remainder(0.01, 0.03, messages=10, coordinates=2410, rounds=150) < 1e-25
    True
    """
    _check_positive(grid, deviation)
    if messages == 1:
        return 0.0
    ratio = (deviation / grid) ** 2
    if ratio < 0.5:
        return 1.0
    points = 9 * math.sqrt(messages) * ratio + messages + 1
    added = math.exp(-(math.pi**2) * ratio) * (messages**2 * points + 2)
    return min(1.0, rounds * coordinates * added)


def range_for(
    *,
    records: int,
    q: float,
    denominator: float,
    record_clip: float,
    deviation: float,
    coordinates: int,
    rounds: int,
    failure: float = 1e-9,
) -> float:
    """The largest value that a coordinate of a message takes, but for probability `failure`.

    b C_r / S + t s over the whole training: b a quantile of the Poisson batch, Bin(n, q), and t
    one of the noise, with half of `failure` each; `failure` then adds to any success rate.

    >>> round(range_for(records=150, q=4 / 150, denominator=4, record_clip=0.5, deviation=0.03,
    ...                 coordinates=2410, rounds=150), 2)
    3.11
    """
    from scipy.stats import binom  # heavy, and needed for proofs alone

    _check_positive(denominator, record_clip, deviation)
    between("failure", failure)
    if records < 1 or coordinates < 1 or rounds < 1 or not 0 < q <= 1:
        raise InvalidInput(
            f"records, coordinates and rounds must be at least 1 and q lie in (0, 1], got "
            f"{records}, {coordinates}, {rounds} and {q}."
        )
    batch = int(binom.isf(failure / (2 * rounds), records, q))
    tail = -float(ndtri(failure / (4 * rounds * coordinates)))
    return batch * record_clip / denominator + tail * deviation


def _check_positive(*values: float) -> None:
    for value in values:
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(
                f"grid, deviation, denominator and clip must be positive and finite, got {value}."
            )
