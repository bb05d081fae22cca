"""Profiles: from observed updates, floored, checked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trilemma.errors import InvalidInput
from trilemma.paper_framework.profile import Profile


def test_a_profile_of_observed_updates() -> None:
    samples = np.array([[0.0, 5.0, 1.0], [2.0, 5.0, -3.0], [4.0, 5.0, 1.0]])
    profile = Profile.of(samples)
    assert profile.parameters == 3
    assert profile.delta == 2.0
    assert profile.floored == 1
    assert profile.sigma == pytest.approx([2.0, 2.0, math.sqrt(16 / 3)])


def test_log_precision_survives_extreme_sigmas() -> None:
    scalar = Profile(10**9, sigma=1e-200).log_precision
    assert scalar == pytest.approx(0.5 * math.log(1e9) + 400 * math.log(10))
    vector = Profile.from_sigmas([1e-200, 1e200]).log_precision
    assert vector == pytest.approx(400 * math.log(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": 0}, "at least 1"),
        ({"parameters": 10**400}, "at most 63 bits"),
        ({"parameters": 2.5}, "integer"),
        ({"parameters": True}, "integer"),
        ({"parameters": 3, "delta": 0.0}, "delta"),
        ({"parameters": 3, "delta": math.nan}, "delta"),
        ({"parameters": 3, "sigma": -1.0}, "sigma"),
        ({"parameters": 3, "sigma": np.ones(4)}, "4 entries"),
        ({"parameters": 2, "sigma": np.array([1.0, 0.0])}, "zeros"),
        ({"parameters": 2, "sigma": np.array([1.0, math.nan])}, "entry 1 is nan"),
    ],
)
def test_bad_profiles_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Profile(**arguments)  # type: ignore[arg-type]  # wrong types are the point


def test_profiles_that_cannot_be_made() -> None:
    with pytest.raises(InvalidInput, match="every sigma is zero"):
        Profile.from_sigmas([0.0, 0.0])
    with pytest.raises(InvalidInput, match="at least 2 updates"):
        Profile.of(np.zeros((1, 4)))
    with pytest.raises(InvalidInput, match="NaN"):
        Profile.of([[1.0, math.nan], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match="give --sigma"):
        _ = Profile(3).log_precision
    with pytest.raises(InvalidInput, match="paillier needs delta"):
        Profile(3).require_delta("paillier")
