"""The belief in a success curve, against Bayes by hand."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.comparing.simulated_attackers import SimulatedAttacker
from scipy import stats

from trilemma.tuning.calibration.success_curve import SuccessCurve


def test_the_posterior_agrees_with_bayes_by_hand() -> None:
    curve = SuccessCurve.prior(-0.5, 0.5)
    place = 14
    x = curve.strengths[place]
    after = curve.observe(place, 10, 3)
    grid = curve.grid
    table = grid.floor[:, None] + (1 - grid.floor[:, None]) * stats.norm.cdf(
        (grid.mu[None, :] - x) / grid.sd[:, None]
    )
    by_hand = np.exp(grid.log_prior) * stats.binom.pmf(3, 10, np.clip(table, 1e-4, 1 - 1e-3))
    by_hand /= by_hand.sum()
    assert after.weights == pytest.approx(by_hand, abs=1e-12)
    assert after.expect()[place] == pytest.approx(float((by_hand * table).sum()), abs=1e-4)
    squares = after.expect(np.square)[place]
    assert squares == pytest.approx(float((by_hand * table**2).sum()), abs=1e-4)
    assert (np.diff(after.expect()) < 0).all()


def test_a_well_measured_curve_is_known() -> None:
    curve, truth = SuccessCurve.prior(-2.0, 2.0), SimulatedAttacker("moderate", 0.286, 0.3)
    for place, x in enumerate(curve.strengths):
        curve = curve.observe(place, 400, round(400 * truth.success(float(x))))
    assert curve.width == pytest.approx(truth.sd, abs=0.03)
    mean, sd = curve.crossing(0.286)
    assert mean == pytest.approx(truth.weakest, abs=0.04)
    assert sd < 0.03
