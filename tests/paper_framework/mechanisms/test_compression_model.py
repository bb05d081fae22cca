"""What a share of its own for each coordinate distorts, in 50-digit arithmetic."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

from trilemma.errors import InvalidInput
from trilemma.paper_framework.mechanisms import mechanism
from trilemma.paper_framework.mechanisms.base import Strength
from trilemma.paper_framework.mechanisms.compression_model import (
    per_coordinate_distortion,
    rescaled_distortion,
)
from trilemma.paper_framework.profile import Profile


def test_per_coordinate_keep_probabilities() -> None:
    rng = np.random.default_rng(15)
    dropped = 10 ** rng.uniform(-14, -1, size=1000)
    with mp.workdps(50):
        kept = mpf(1)
        for item in dropped:
            kept *= 1 - mpf(float(item))
        assert per_coordinate_distortion(dropped) == pytest.approx(float(1 - kept), rel=1e-9)
    assert per_coordinate_distortion([0.1, 1.0]) == 1.0
    for bad in ([], [1.5], [math.nan]):
        with pytest.raises(InvalidInput, match="1 - ρᵢ"):
            per_coordinate_distortion(bad)
    equal = per_coordinate_distortion(np.full(50, 0.01))
    assert equal == pytest.approx(
        mechanism("compression").distortion(math.log(-math.log(0.99)), Profile(50))
    )
    assert rescaled_distortion(math.log(-math.log(0.99)), 50) == pytest.approx(1 - 0.99**100)


def test_the_true_distortion_has_the_papers_rescaling() -> None:
    found = mechanism("compression").true_distortion(
        Strength(math.log(-math.log(0.99))), Profile(50)
    )
    assert found == pytest.approx(1 - 0.99**100)
