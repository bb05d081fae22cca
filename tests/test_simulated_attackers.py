"""Simulated attackers: their curves, and that they fall as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.comparing.simulated_attackers import CURVES, WIDE, SimulatedAttacker
from scipy.stats import binomtest, norm

from trilemma.errors import InvalidInput, UnknownName


@pytest.mark.parametrize("curve", ["steep", "moderate", "flat"])
def test_a_fall_has_its_width_and_its_crossing(curve: str) -> None:
    made = SimulatedAttacker(curve, 0.2, middle=0.3)
    decades = {"steep": 0.15, "moderate": 0.45, "flat": 1.5}[curve]
    ends = 0.3 - decades / 2, 0.3 + decades / 2
    assert [made.success(x) for x in ends] == pytest.approx([0.9, 0.1])
    assert made.success(made.weakest) == pytest.approx(0.2)
    assert made.weakest == pytest.approx(0.3 - made.sd * float(norm.ppf(0.2)))


def test_odd_curves() -> None:
    assert SimulatedAttacker("everywhere", 0.2).success(9.0) > 0.2
    assert np.isinf(SimulatedAttacker("everywhere", 0.2).weakest)
    assert np.isinf(SimulatedAttacker("plateau", 0.01).weakest)
    step = SimulatedAttacker("step", 0.2)
    assert (step.success(-0.01), step.success(0.0), step.weakest) == (0.95, 0.005, 0.0)
    wide = SimulatedAttacker(WIDE, 0.258, 0.5)
    assert [wide.success(x) for x in (-0.5, 1.5)] == pytest.approx([0.37, 0.13])
    assert wide.success(wide.weakest) == pytest.approx(0.258)
    bump = SimulatedAttacker("bump", 0.2)
    assert bump.success(0.8) == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("curve", [*CURVES, WIDE])
def test_units_fall_at_the_rate_of_the_curve(curve: str) -> None:
    made = SimulatedAttacker(curve, 0.2)
    hits = made.won(0.1, 4000, np.random.default_rng(0))
    assert binomtest(hits, 4000, made.success(0.1)).pvalue > 1e-3


def test_bad_values() -> None:
    with pytest.raises(UnknownName, match="did you mean 'step'"):
        SimulatedAttacker("stepp", 0.2)
    with pytest.raises(InvalidInput, match="p_max"):
        SimulatedAttacker("step", 1.0)
