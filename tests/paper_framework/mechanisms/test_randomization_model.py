"""The law of Gaussian noise where σ differs between coordinates."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

from trilemma.paper_framework.mechanisms import mechanism
from trilemma.paper_framework.profile import Profile

TOLERANCE = 1e-9


def test_closed_forms_with_sigma_vectors_that_contain_zeros() -> None:
    rng = np.random.default_rng(14)
    for size in [1, 2, 7, 50, 300, 1_000, 3_000, 10_000, 30_000, 100_000] * 2:
        sigmas = 10 ** rng.uniform(-9, 3, size=size)
        zeros = rng.random(size) < 0.1
        zeros[0] = False
        profile = Profile.from_sigmas(np.where(zeros, 0, sigmas), delta=1.0)
        assert profile.floored == zeros.sum()
        with mp.workdps(50):
            floor = min(float(s) for s in sigmas[~zeros])
            floored = [floor if z else float(s) for s, z in zip(sigmas, zeros, strict=True)]
            a = mp.sqrt(mp.fsum(mpf(s) ** -4 for s in floored))
            q = mpf(0.004)
            ours = mechanism("randomization").inverse(0.004, profile)
            assert ours.dose == pytest.approx(float(100 * q / a), rel=TOLERANCE)
            tight = mechanism("randomization").inverse(0.3, profile, "tight")
            assert tight.dose == pytest.approx(float(4 * mp.erfinv(mpf(0.3)) / a), rel=TOLERANCE)
