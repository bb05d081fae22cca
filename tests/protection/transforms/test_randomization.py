"""Gaussian noise against scipy's distributions and plain arithmetic."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.protection.transforms.applying import LEAST_P, apply, some_values

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.learning.precision import LARGE
from trilemma.protection.transforms.randomization import Randomization, system_normals


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("entropy", [Seeded(3), System()], ids=["seeded", "system"])
def test_the_noise_is_normal(dtype: torch.dtype, entropy: Seeded | System) -> None:
    values = some_values(20_000, dtype=dtype)
    kept = values.clone()
    noisy = apply(Randomization(0.04), values, entropy=entropy).values
    assert noisy.dtype == dtype
    assert torch.equal(values, kept), "the update itself must not change"
    noise = (noisy - values).double().numpy()
    assert stats.kstest(noise, "norm", (0, 0.2)).pvalue > LEAST_P
    assert abs(stats.pearsonr(noise, values.double().numpy()).statistic) < 0.04


def test_seeded_noise_repeats_and_differs_by_client() -> None:
    values = some_values(100)
    transform = Randomization(1.0)
    first = apply(transform, values).values
    assert torch.equal(first, apply(transform, values).values)
    assert not torch.equal(first, apply(transform, values, client=1).values)
    assert not torch.equal(first, apply(transform, values, entropy=Seeded(8)).values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_a_gpu_draws_the_noise_of_large_updates_alone() -> None:
    transform = Randomization(0.04)
    small, large = torch.zeros(LARGE), torch.zeros(LARGE + 1)
    assert torch.equal(apply(transform, small.cuda()).values.cpu(), apply(transform, small).values)
    noise = apply(transform, large.cuda()).values
    assert noise.is_cuda
    assert torch.equal(noise, apply(transform, large.cuda()).values)
    assert not torch.equal(noise, apply(transform, large.cuda(), client=1).values)
    assert not torch.equal(noise.cpu(), apply(transform, large).values)
    sample = noise[:20_000].double().cpu().numpy()
    assert stats.kstest(sample / 0.2, "norm").pvalue > LEAST_P


def test_system_noise_never_repeats() -> None:
    values, transform = some_values(100), Randomization(1.0)
    first, second = (apply(transform, values, entropy=System()).values for _ in range(2))
    assert not (first == second).any()


def test_system_normals_reach_far_into_both_tails() -> None:
    draws = np.concatenate(list(system_normals(400_000)))
    edges = np.array([-np.inf, -3.5, -2.5, -1, 0, 1, 2.5, 3.5, np.inf])
    expected = np.diff(stats.norm.cdf(edges)) * draws.size
    counts = [((draws > low) & (draws <= high)).sum() for low, high in pairwise(edges)]
    assert stats.chisquare(counts, expected).pvalue > LEAST_P
    assert stats.kstest(draws[:50_000], "norm").pvalue > LEAST_P


def test_system_noise_lies_on_a_grid_and_leaks_no_low_bits() -> None:
    """Whatever the update, results are whole multiples of one power of two."""
    transform = Randomization(0.09)
    grid = 2.0 ** (math.floor(math.log2(0.3)) - 24)
    for scale in (0.0, 1e-12, 1.0, 1e3):
        noisy = apply(transform, scale * some_values(1000), entropy=System()).values.numpy()
        assert (np.mod(noisy / grid, 1) == 0).all()


def test_clipping_bounds_the_whole_update_and_keeps_its_direction() -> None:
    values = some_values(1000)
    tiny = Randomization(1e-20, clip=2.0)
    for entropy in (Seeded(1), System()):
        clipped = apply(tiny, values, entropy=entropy).values
        assert float(clipped.norm()) == pytest.approx(2.0, rel=1e-6)
        assert torch.nn.functional.cosine_similarity(clipped, values, dim=0) > 1 - 1e-9
        short = apply(tiny, values * 1e-3, entropy=entropy).values
        assert torch.allclose(short, values * 1e-3, atol=1e-8)


@pytest.mark.parametrize("size", [1, 4095, 4096, 50_001])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_norm_holds_for_any_length_and_magnitude(size: int, scale: float) -> None:
    """Against numpy in double precision; squares of 1e30 overflow in 32 bits."""
    values = some_values(size, dtype=torch.float32) * scale
    clip = 0.5 * scale
    clipped = apply(Randomization(1e-6 * clip**2 / size, clip), values).values.double().numpy()
    exact = np.linalg.norm(values.double().numpy())
    assert np.linalg.norm(clipped) == pytest.approx(min(clip, exact), rel=2e-3)


FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=500, deadline=None)
@given(
    values=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20
    ),
    repeat=st.sampled_from([1, 100, 10_000]),
    clip=st.sampled_from([1e-3, 0.1, 7.3]),
)
def test_no_update_is_longer_than_its_clip(values: list[float], repeat: int, clip: float) -> None:
    """Against double precision, with noise that is too small to count."""
    update = torch.tensor(values, dtype=torch.float32).repeat(repeat)
    made = apply(Randomization(1e-60, clip), update, entropy=Seeded(1)).values
    assert float(made.double().norm()) <= clip * (1 + 1e-6)
    exact = update.double() * min(1.0, clip / max(float(update.double().norm()), 1e-60))
    torch.testing.assert_close(made.double(), exact, rtol=2e-6, atol=1e-29)


def test_rounding_that_goes_one_way_does_not_shorten_a_norm() -> None:
    for value in (1.0000001, 1.1, 1.3333334, 1.9999999):
        made = apply(Randomization(1e-60, 1.0), torch.full((50_000,), value), entropy=Seeded(1))
        assert float(made.values.double().norm()) <= 1 + 1e-6


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, math.inf])
def test_impossible_noise_is_refused(variance: float) -> None:
    with pytest.raises(InvalidInput, match="variance"):
        Randomization(variance)
    with pytest.raises(InvalidInput, match="clip"):
        Randomization(1.0, clip=variance)
