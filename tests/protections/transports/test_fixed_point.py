"""What transports on a grid share: settings that check themselves, and one range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trilemma.crypto.packing import FixedPoint
from trilemma.errors import InvalidInput
from trilemma.protections.transports.fixed_point import FixedPointTransport, check_range
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.protections.transports.twin import FixedPointTwin

MAKERS: list[Callable[..., FixedPointTransport]] = [Paillier, SecretSharing, FixedPointTwin]


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
        for make in MAKERS[:2]
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
