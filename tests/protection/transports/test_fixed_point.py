"""What transports on a grid share: settings that check themselves, and one range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trilemma.crypto.packing import FixedPoint
from trilemma.errors import InvalidInput, RangeExceeded
from trilemma.protection.transports.fixed_point import (
    FixedPointTransport,
    check_range,
    saturated,
    share_saturated,
)
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

MAKERS: list[Callable[..., FixedPointTransport]] = [Paillier, SecretSharing]


@pytest.mark.parametrize("make", MAKERS)
def test_one_grid_for_all(make: Callable[..., FixedPointTransport]) -> None:
    transport = make(clip_range=2.0, precision_bits=12, max_weight=77)
    assert transport.fixed == FixedPoint(2.0, 12, 77)
    assert transport.step_size() == 2.0 / (2**11 - 1)


@pytest.mark.parametrize("make", MAKERS)
def test_numbers_of_numpys_become_plain_ones(make: Callable[..., FixedPointTransport]) -> None:
    given: dict[str, Any] = {
        "clip_range": np.float64(0.5),
        "precision_bits": np.int64(12),
        "max_weight": np.int32(9),
    }
    transport = make(**given)
    assert transport == make(clip_range=0.5, precision_bits=12, max_weight=9)
    assert transport.describe() == make(clip_range=0.5, precision_bits=12, max_weight=9).describe()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("setting", "value"),
    [("clip_range", 0.0), ("clip_range", "1"), ("precision_bits", 1), ("max_weight", 0)],
)
def test_impossible_grids_are_refused(
    make: Callable[..., FixedPointTransport], setting: str, value: Any
) -> None:
    with pytest.raises(InvalidInput, match=setting.removesuffix("_bits")):
        make(**{setting: value})


def test_labels_differ_where_settings_do() -> None:
    labels = {
        make(max_weight=weight).bound_label(label)
        for make in MAKERS
        for weight in (10, 20)
        for label in (b"", b"a")
    }
    assert len(labels) == 8


@pytest.mark.parametrize("bad", [1.01, -1.01, np.inf, np.nan])
def test_what_is_out_of_range_is_named(bad: float) -> None:
    fixed = FixedPoint(1.0)
    check_range(np.array([1.0, -1.0]), fixed, 3)
    check_range(np.empty(0), fixed, 3)
    with pytest.raises(InvalidInput, match=r"client 3 .* beyond the transport's clip_range of 1"):
        check_range(np.array([0.5, bad]), fixed, 3)


@pytest.mark.parametrize("make", [Paillier, SecretSharing])
@pytest.mark.parametrize("reach", [1e-9, 0.3, 0.5, 700.0])
@pytest.mark.parametrize("noise", [0.0, 1e-2, 1e-7])
@pytest.mark.parametrize("weight", [3, 10**5])
def test_a_fitted_transport_carries_what_it_must(
    make: type[FixedPointTransport], reach: float, noise: float, weight: int
) -> None:
    try:
        transport = make.fitted(reach, weight, reach * noise)
    except InvalidInput as error:
        pytest.fail(str(error))
    assert reach <= transport.clip_range < 2 * reach
    assert transport.max_weight == weight
    assert not noise or transport.least_noise() <= reach * noise
    assert transport.precision_bits == 16 or transport.step_size() * 4 > reach * noise / 2
    transport.fixed.quantise(np.array([reach, -reach]))


def test_noise_that_no_grid_can_carry_is_refused() -> None:
    with pytest.raises(InvalidInput, match="even in 32 bits"):
        SecretSharing.fitted(1.0, 10, noise=1e-12)
    assert Plain.fitted(1.0, 10, noise=1e-12) == Plain()


def test_a_ring_is_no_wider_than_its_sum_needs() -> None:
    assert SecretSharing.fitted(1.0, 10).ring_bits == 32
    assert SecretSharing.fitted(1.0, 10**5).ring_bits == 64
    assert SecretSharing.fitted(1.0, 10, noise=1e-8).ring_bits == 64


@pytest.mark.parametrize("clip", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [2, 8, 16, 32])
def test_what_is_beyond_the_range_counts_as_its_edge_and_is_counted(
    clip: float, dtype: type[np.floating[Any]], bits: int
) -> None:
    fixed = FixedPoint(clip, bits)
    values = np.linspace(-2 * clip, 2 * clip, 1001).astype(dtype)
    values[0] = np.inf
    made = saturated(values, fixed)
    check_range(made, fixed, 1)
    assert made.dtype == dtype
    edged = fixed.quantise(np.clip(values.astype(float), -clip, clip))
    apart = np.abs(fixed.quantise(made[:-1]) - edged)
    assert apart.max() <= fixed.levels * np.finfo(dtype).eps, "but for single precision"
    beyond = sum(abs(float(value)) > clip for value in values)
    unit = -(-values.size // fixed.levels)
    assert fixed.quantise(made[-1:]) == -(-beyond // unit), "rounded up, in units that fit"
    assert beyond > values.size // 3


def test_values_within_the_range_are_as_they_were() -> None:
    values = np.array([-1.0, 0.25, 1.0])
    np.testing.assert_array_equal(saturated(values, FixedPoint(1.0)), [*values, 0.0])
    assert saturated(np.empty(0), FixedPoint(1.0)).tolist() == [0.0]
    assert share_saturated(0.0, 0, FixedPoint(1.0)) == 0.0
    for short in (np.empty(0), np.zeros(1)):
        means, share = SecretSharing().split_count(short)
        assert (means.size, share) == (0, 0.0)
    assert np.isnan(saturated(np.array([np.nan]), FixedPoint(1.0))[0]), "left to be refused"


@pytest.mark.parametrize("size", [5000, 400_000])
def test_one_in_a_thousand_may_lie_beyond_the_range(size: int) -> None:
    fixed = FixedPoint(1.0)
    values = np.zeros(size)
    values[: size // 1000 - size // 10_000] = 7.0
    assert 0 < share_saturated(saturated(values, fixed)[-1], size, fixed) <= 1e-3
    values[: size // 1000 + 20] = 7.0
    with pytest.raises(RangeExceeded, match=r"% of the coordinates lay beyond clip_range=1, more"):
        share_saturated(saturated(values, fixed)[-1], size, fixed)
