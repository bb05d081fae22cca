"""The published success rates on digits-mlp, as statistics; minutes, so only in the slow set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from scipy.stats import binom

from trilemma.attacks import get

if TYPE_CHECKING:
    from tests.attacks.conftest import Problems

Maker = Callable[..., "Problems"]
UNITS = 200
REFERENCE_UNITS = 120  # behind each published rate


TAIL = 5e-4  # about one false alarm in a thousand


def no_weaker(recovered: int, rate: float) -> bool:
    """Whether a count is not significantly below what a published rate allows."""
    low = binom.ppf(TAIL, REFERENCE_UNITS, rate) / REFERENCE_UNITS
    return bool(binom.cdf(recovered, UNITS, max(low, 0.0)) > TAIL)


def consistent(recovered: int, rate: float) -> bool:
    """Whether counts of two samples agree."""
    high = binom.isf(TAIL, REFERENCE_UNITS, rate) / REFERENCE_UNITS
    no_stronger = bool(binom.sf(recovered - 1, UNITS, min(high, 1.0)) > TAIL)
    return no_weaker(recovered, rate) and no_stronger


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variance", "rate"),
    [
        (0.0, 0.993),
        (9e-4, 0.972),
        (1.6e-3, 0.725),
        (2e-3, 0.567),
        (2.5e-3, 0.313),
        (3e-3, 0.125),
    ],
)
def test_noise_curve(problems: Maker, variance: float, rate: float) -> None:
    made = problems(UNITS, variance=variance, seed=7)
    found = get("dlg")(made.views, restarts=3, seed=1)
    assert consistent(made.recovered(found.inputs), rate)


@pytest.mark.slow
@pytest.mark.parametrize(("keep", "rate"), [(0.1, 1.0), (0.05, 0.617), (0.04, 0.4), (0.03, 0.008)])
def test_compression_curve(problems: Maker, keep: float, rate: float) -> None:
    made = problems(UNITS, keep=keep, seed=8)
    attack = get("dlg", iterations=1000, precision="double", start="normal")
    found = attack(made.views, restarts=4, seed=1)
    # Published without the range of the data, which finds more where coordinates are missing.
    assert no_weaker(made.recovered(found.inputs), rate)
