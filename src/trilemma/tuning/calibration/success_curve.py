"""What is believed of an attack's success as protection grows: a grid posterior.

p(x) = f + (u - f)·Φ((μ - x)/sd) with x = log₁₀(strength / warm start), a floor f that the attack
keeps whatever the strength, and the unprotected success u. The belief only decides where to
attack next. No certificate rests on it: a curve that the model cannot follow costs units, not
validity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CurveSummary", "SuccessCurve"]

_STEP: Final = 0.025  # decades between neighbouring strengths: 6 % of the parameter
_MARGIN: Final = 0.5  # decades by which μ may lie outside the domain of strengths
_WIDTHS: Final = np.array([0.03, 0.06, 0.1, 0.17, 0.3, 0.55, 1.0])
_FLOORS: Final = np.array([0.0, 0.01, 0.03, 0.08])
_FLOOR_PRIOR: Final = np.array([0.55, 0.15, 0.15, 0.15])
_LOCATION_SCALE: Final = 0.5  # decades; Cauchy: a warm start is mostly good and sometimes far off


@dataclass(frozen=True)
class CurveSummary:
    """Posterior means of μ, sd and f, for display."""

    mu: float
    sd: float
    floor: float
    ceiling: float


@dataclass(frozen=True, eq=False)
class _Grid:
    """Strengths x, locations μ on the same lattice, and p as a function of μ - x alone.

    Row k of `rates` is one (sd, f); column d is μ - x = (d - (len(x) - 1))·step + μ₀ - x₀.
    Since neighbours share all but one column, p at every (μ, x) is a sliding window of one table.
    """

    x: NDArray[np.float64]
    mu: NDArray[np.float64]
    sd: NDArray[np.float64]
    floor: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    rates: NDArray[np.float64]
    log_hit: NDArray[np.float64]
    log_miss: NDArray[np.float64]

    def window(self, index: int) -> slice:
        """The columns of all μ at x[index]."""
        start = len(self.x) - 1 - index
        return slice(start, start + len(self.mu))


@lru_cache(maxsize=8)
def _grid(low: float, high: float, ceiling: float) -> _Grid:
    steps = max(1, math.ceil((high - low) / _STEP - 1e-9))
    step = (high - low) / steps
    x = np.linspace(low, high, steps + 1)
    beyond = math.ceil(_MARGIN / step)
    mu = low + step * np.arange(-beyond, steps + beyond + 1, dtype=np.float64)
    sd, floor = (axis.ravel() for axis in np.meshgrid(_WIDTHS, _FLOORS, indexing="ij"))
    floor = np.minimum(floor, ceiling)
    gap = step * (np.arange(len(mu) + len(x) - 1) - (len(x) - 1)) + (mu[0] - low)
    rates = floor[:, None] + (ceiling - floor[:, None]) * ndtr(gap / sd[:, None])
    # No outcome is ever impossible: a single odd unit must not rule a curve out for good.
    rates = np.clip(rates, 1e-4, 1 - 1e-3)
    location = -np.log1p((mu / _LOCATION_SCALE) ** 2)
    shape = np.log(np.tile(_FLOOR_PRIOR, len(_WIDTHS)))
    return _Grid(
        x, mu, sd, floor, shape[:, None] + location, rates, np.log(rates), np.log1p(-rates)
    )


_Counts = tuple[tuple[int, int, int], ...]  # place, units and successes, one after the other
_Function = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]


@dataclass(frozen=True, eq=False)
class SuccessCurve:
    """The posterior over (sd, f) × μ after some counts; a new count gives a new posterior.

    The same counts give the very same curve, which keeps what it was asked for: a procedure that
    is replayed asks for all of it again.
    """

    grid: _Grid
    log_weight: NDArray[np.float64]
    ends: tuple[float, float]
    ceiling: float
    counts: _Counts
    _expected: dict[_Function | None, NDArray[np.float64]] = field(default_factory=dict)
    _crossings: dict[float, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def prior(cls, low: float, high: float, ceiling: float = 1.0) -> SuccessCurve:
        """Before any count, for strengths in low ≤ x ≤ high."""
        return _posterior((low, high), round(ceiling, 2), ())

    @property
    def strengths(self) -> NDArray[np.float64]:
        """The lattice of x that the procedure may choose from."""
        return self.grid.x

    def observe(self, index: int, units: int, successes: int) -> SuccessCurve:
        """The posterior after `successes` of `units` at strengths[index]."""
        return _posterior(
            self.ends, self.ceiling, (*self.counts, (int(index), int(units), int(successes)))
        )

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Posterior probabilities [(sd, f), μ]."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        result: NDArray[np.float64] = weight / weight.sum()
        return result

    def expect(self, function: _Function | None = None) -> NDArray[np.float64]:
        """E[function(p(x))] at every strength; E[p(x)] without a function."""
        if function not in self._expected:
            self._expected[function] = self._expect(function)
        return self._expected[function].copy()

    def _expect(self, function: _Function | None) -> NDArray[np.float64]:
        grid, weight = self.grid, self.weights
        # What has no weight is left out: a sharp posterior keeps a tenth of the table.
        rows = weight.sum(axis=1) > 1e-4
        columns = np.flatnonzero(weight.sum(axis=0) > 1e-6)
        first, last = int(columns[0]), int(columns[-1]) + 1
        table = grid.rates[rows, first : last + len(grid.x) - 1]
        values = table if function is None else function(table)
        kept = weight[rows, first:last]
        pairs = zip(values, kept, strict=True)
        total = sum((np.correlate(*pair, "valid") for pair in pairs), np.zeros(len(grid.x)))
        mean: NDArray[np.float64] = total[::-1] / kept.sum()
        return mean

    def crossing(self, rate: float) -> tuple[float, float]:
        """Posterior mean and sd of the x where p(x) = rate, held within the grid of μ."""
        if rate not in self._crossings:
            self._crossings[rate] = self._crossing(rate)
        return self._crossings[rate]

    def _crossing(self, rate: float) -> tuple[float, float]:
        grid, weight = self.grid, self.weights
        # p falls with x, so the number of columns above the rate marks the crossing of each row.
        above = (grid.rates > rate).sum(axis=1)
        columns = grid.rates.shape[1]
        step = grid.x[1] - grid.x[0]
        gap = (columns - above - (len(grid.x) - 1)) * step + (grid.mu[0] - grid.x[0])
        where = np.clip(grid.mu[None, :] - gap[:, None], grid.mu[0], grid.mu[-1])
        mean = float((weight * where).sum())
        return mean, math.sqrt(max(0.0, float((weight * (where - mean) ** 2).sum())))

    @cached_property
    def summary(self) -> CurveSummary:
        """Posterior means."""
        grid, weight = self.grid, self.weights
        rows = weight.sum(axis=1)
        return CurveSummary(
            mu=float(weight.sum(axis=0) @ grid.mu),
            sd=float(rows @ grid.sd),
            floor=float(rows @ grid.floor),
            ceiling=self.ceiling,
        )


@lru_cache(maxsize=512)
def _posterior(ends: tuple[float, float], ceiling: float, counts: _Counts) -> SuccessCurve:
    if not counts:
        grid = _grid(*ends, ceiling)
        return SuccessCurve(grid, grid.log_prior, ends, ceiling, counts)
    *_, (index, units, successes) = counts
    before = _posterior(ends, ceiling, counts[:-1])
    grid = before.grid
    window = grid.window(index)
    gain = successes * grid.log_hit[:, window]
    gain += (units - successes) * grid.log_miss[:, window]
    return SuccessCurve(grid, before.log_weight + gain, ends, ceiling, counts)
