"""What is believed of an attack's success as protection grows: a grid posterior.

p(x) = f + (u - f)·Φ((μ - x)/sd) with x = log₁₀(strength / warm start), a floor f that the attack
keeps whatever the strength, and the unprotected success u. The belief only decides where to
attack next. No certificate rests on it: a curve that the model cannot follow costs units, not
validity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SuccessCurve"]

_STEP: Final = 0.025  # decades between neighbouring strengths: 6 % of the parameter
_MARGIN: Final = 1.5  # decades by which μ may lie outside the domain of strengths
_WIDTHS: Final = np.array([0.03, 0.06, 0.1, 0.17, 0.3, 0.55, 1.0, 1.8, 3.2])
_WIDTH_PRIOR: Final = np.array([1, 1, 1, 1, 1, 1, 1, 1 / 6, 1 / 6])  # few fall over many decades
_FLOORS: Final = np.array([0.0, 0.01, 0.03, 0.08])
_FLOOR_PRIOR: Final = np.array([0.55, 0.15, 0.15, 0.15])
_LOCATION_SCALE: Final = 0.5  # decades; Cauchy: a warm start is mostly good and sometimes far off


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
    shape = np.log(np.outer(_WIDTH_PRIOR, _FLOOR_PRIOR).ravel())
    return _Grid(
        x, mu, sd, floor, shape[:, None] + location, rates, np.log(rates), np.log1p(-rates)
    )


_Function = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]


@dataclass(frozen=True, eq=False)
class SuccessCurve:
    """The posterior over (sd, f) × μ after some counts; a new count gives a new posterior."""

    grid: _Grid
    log_weight: NDArray[np.float64]
    ceiling: float

    @classmethod
    def prior(cls, low: float, high: float, ceiling: float = 1.0) -> SuccessCurve:
        """Before any count, for strengths in low ≤ x ≤ high."""
        ceiling = round(ceiling, 2)
        grid = _grid(low, high, ceiling)
        return cls(grid, grid.log_prior, ceiling)

    @property
    def strengths(self) -> NDArray[np.float64]:
        """The lattice of x that the procedure may choose from."""
        return self.grid.x

    def observe(self, index: int, units: int, successes: int) -> SuccessCurve:
        """The posterior after `successes` of `units` at strengths[index]."""
        window = self.grid.window(index)
        gain = successes * self.grid.log_hit[:, window]
        gain += (units - successes) * self.grid.log_miss[:, window]
        return SuccessCurve(self.grid, self.log_weight + gain, self.ceiling)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Posterior probabilities [(sd, f), μ]."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        result: NDArray[np.float64] = weight / weight.sum()
        return result

    def expect(self, function: _Function | None = None) -> NDArray[np.float64]:
        """E[function(p(x))] at every strength; E[p(x)] without a function."""
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
    def width(self) -> float:
        """The posterior mean of sd, by its logarithm: a few wide curves must not decide it."""
        return math.exp(float(self.weights.sum(axis=1) @ np.log(self.grid.sd)))
