"""Direct tests of a deployment's code: noise as promised, fresh in each round, records bounded.

Canaries show that something is wrong; these show what. They need what only a test in one process
has: the update before its noise, or the same noise twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from scipy.stats import chi2, norm

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Finding", "Residuals", "records_bounded"]

_LEVEL: Final = 1e-6  # of each test: how often it errs where nothing is wrong
_KEPT: Final = 4096  # coordinates of each round's noise that are kept, the first ones
_FLOAT: Final = 1e-4  # of a record's bound: what sums in single precision may differ by
_FEW: Final = 10_000  # values, of fewer of which a fourth moment says little
_PAIRS: Final = 16  # records that are left out, one at a time


@dataclass(frozen=True)
class Finding:
    """One test of the deployed code, whether it holds, and in one sentence what it saw."""

    test: str
    holds: bool
    statement: str


class Residuals:
    """Collects what was released less what was sent, round by round: the noise itself.

    `deviation` is the standard deviation of one client's noise on a coordinate.
    """

    def __init__(self, deviation: float) -> None:
        self.deviation = deviation
        self._rows: list[NDArray[np.float64]] = []
        self._squares: list[float] = []  # of each row, all coordinates
        self._count = 0  # coordinates of a row

    def add(self, residual: torch.Tensor, clients: int) -> None:
        """The noise [m] of so many clients in one round."""
        values = residual.detach().cpu().double().numpy()
        scaled = values / math.sqrt(clients)
        self._squares.append(float(scaled @ scaled))
        self._count = len(scaled)
        self._rows.append(scaled[:_KEPT])

    def findings(self) -> tuple[Finding, ...]:
        """Whether the noise is as large as promised, and none was used twice."""
        return self._size(), self._fresh()

    def _size(self) -> Finding:
        """In all, in each round and on each coordinate: little in one makes up for no other."""
        squares, kept = np.array(self._squares), np.stack(self._rows)
        measured = math.sqrt(squares.sum() / (self._count * len(squares)))
        said = (
            f"each client's noise has a standard deviation of {measured:.4g}, where "
            f"{self.deviation:.4g} was promised"
        )
        parts = {
            "all": (squares.sum(keepdims=True), self._count * len(squares)),
            "one round": (squares, self._count),
            "one coordinate": (np.square(kept).sum(0), len(kept)),
        }
        holds = self.deviation > 0
        for where, (sums, count) in parts.items():
            level = _LEVEL / len(parts) / len(sums)
            low, high = (np.sqrt(sums / chi2.ppf(part, count)) for part in (1 - level, level))
            # A grid's rounding is noise of its own, and the mean is in single precision.
            off = (low > self.deviation * 1.01) | (high < self.deviation * 0.99)
            holds = holds and not off.any()
            if off.any() and where != "all":
                worst = math.sqrt(float(sums[off].min()) / count)
                said += f"; in {where} it is {worst:.4g}"
        return Finding("noise", bool(holds and self._is_normal(kept)), said)

    def _is_normal(self, kept: NDArray[np.float64]) -> bool:
        """Whether the fourth moment is a Gaussian's: noise may be missing here and there."""
        second, fourth = float(np.mean(kept**2)), float(np.mean(kept**4))
        reach = float(norm.isf(_LEVEL / 2)) * math.sqrt(24 / kept.size) + 0.01
        return second > 0 and (kept.size < _FEW or abs(fourth / second**2 - 3) <= reach)

    def _fresh(self) -> Finding:
        """No two rounds' noises are alike: correlations of all pairs, and their sum."""
        if len(self._rows) < 2:
            return Finding("fresh noise", True, "one round has nothing to be compared with")
        rows = np.stack(self._rows)
        lengths = np.linalg.norm(rows, axis=1)
        if not lengths.all():
            return Finding("fresh noise", False, "some rounds were released without noise")
        units = rows / lengths[:, None]
        upper = np.triu_indices(len(rows), 1)
        alike = (units @ units.T)[upper] * math.sqrt(rows.shape[1])
        largest = float(np.abs(alike).max())
        together = float(alike.sum() / math.sqrt(len(alike)))
        edge = float(norm.isf(_LEVEL / 4 / len(alike)))
        holds = largest <= edge and abs(together) <= float(norm.isf(_LEVEL / 4))
        return Finding(
            "fresh noise",
            holds,
            f"the noises of {len(rows)} releases are {'un' * holds}related: the most alike two by "
            f"{largest:.1f} standard deviations (chance: {edge:.1f}), all by {together:.1f}",
        )


def records_bounded(
    sent: Callable[[torch.Tensor], torch.Tensor], records: int, bound: float, seed: int = 0
) -> tuple[Finding, ...]:
    """What a client sends of two data sets with the same noise: which then cancels.

    `sent(rows)` is the update [m] for these places of its `records`, with the noise of one and the
    same seed. One record less changes it by `bound` at most, clip over denominator; and
    sent(A) + sent(B) is the same however the records are parted into A and B, unless records
    share something: a denominator by their number, or statistics of the batch.
    """
    if records < 8:
        raise InvalidInput(f"records are parted in two ways, which takes 8, got {records}.")
    draw = np.random.default_rng(seed)
    order = torch.from_numpy(draw.permutation(records))
    whole = sent(order).double()
    moved = [
        float((whole - sent(torch.cat([order[:i], order[i + 1 :]])).double()).norm())
        for i in range(min(_PAIRS, records))
    ]
    parts = [sent(order[:some]) + sent(order[some:]) for some in (records // 4, records // 2)]
    apart = float((parts[0].double() - parts[1].double()).norm())
    largest = max(moved)
    return (
        Finding(
            "one record",
            largest <= bound * (1 + _FLOAT),
            f"leaving out one record changes what is sent by {largest:.4g} at most, where "
            f"{bound:.4g} was proved",
        ),
        Finding(
            "denominator",
            apart <= bound * _FLOAT * math.sqrt(records),
            f"records parted in two ways add up to what differs by {apart:.2g}, of {bound:.4g} "
            "that one record may count",
        ),
    )
