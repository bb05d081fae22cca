"""Quantisation against the nearest of all levels."""

from __future__ import annotations

import numpy as np
import pytest
from tests.protection.transforms.applying import apply, some_values

from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.quantisation import Quantisation
from trilemma.testing import check_mechanism


@pytest.mark.parametrize("bits", [1, 2, 5])
def test_each_value_goes_to_the_nearest_level(bits: int) -> None:
    values = some_values(500) * 3
    levels = np.linspace(-1.5, 1.5, 2**bits)
    nearest = levels[np.abs(values.numpy()[:, None] - levels).argmin(1)]
    sent = apply(Quantisation(bits, reach=1.5), values).values
    np.testing.assert_allclose(sent.numpy(), nearest, atol=1e-6)


def test_contract() -> None:
    some = [parse_protection(f"quantisation:bits={bits},reach=0.1") for bits in (6, 4, 1)]
    check_mechanism(
        some[0],
        stronger=some[1:],
        refused=[lambda: Quantisation(0), lambda: Quantisation(17), lambda: Quantisation(8, -1.0)],
    )
