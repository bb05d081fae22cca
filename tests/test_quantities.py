from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.errors import InvalidInput
from trilemma.quantities import between, counted, finite, positive, shown, whole

ANYTHING = st.one_of(
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.fractions(),
    st.complex_numbers(),
    st.booleans(),
    st.none(),
    st.text(),
    st.binary(),
    st.lists(st.integers()),
)


@given(value=ANYTHING)
def test_anything_is_a_plain_number_or_refused(value: Any) -> None:
    plain = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if plain and isinstance(value, int) and abs(value) < 1 << 64:
        assert type(whole("n", value)) is int
        assert whole("n", value) == value
    else:
        with pytest.raises(InvalidInput, match=r"^n must "):
            whole("n", value)
    if plain and 1e-100 <= value <= 1e100:
        assert type(positive("x", value)) is float
        assert math.isclose(positive("x", value), value)
    else:
        with pytest.raises(InvalidInput, match=r"^x must "):
            positive("x", value)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.int64])
def test_numpys_integers_become_plain(kind: type) -> None:
    assert type(whole("n", kind(7))) is int
    assert repr(positive("x", kind(7))) == "7.0"


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numpys_floats_become_plain(kind: type) -> None:
    assert repr(positive("x", kind(0.5))) == "0.5"
    with pytest.raises(InvalidInput, match="whole"):
        whole("n", kind(2.0))


@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, math.inf, -math.inf, 5e-324, 1e101])
def test_what_is_not_positive_and_finite_is_named(value: float) -> None:
    with pytest.raises(InvalidInput, match=r"^x must be positive and finite") as caught:
        positive("x", value)
    assert str(caught.value).endswith(f" got {float(value)}.")


def test_long_integers_are_refused_without_being_printed() -> None:
    with pytest.raises(InvalidInput, match="at most 64 bits, got 16610"):
        whole("n", 10**5000)
    with pytest.raises(InvalidInput, match="got inf"):
        positive("x", 10**5000)
    assert positive("x", Fraction(1, 4)) == 0.25


@given(value=ANYTHING)
def test_anything_is_finite_or_refused_in_one_line(value: Any) -> None:
    try:
        number = finite("it", value)
    except InvalidInput as refusal:
        text = str(refusal)
    else:
        text = str(number)
        assert type(number) is float
        assert abs(number) <= 1e100
        assert number == float(value)
    assert text.isprintable()
    assert len(text) < 300


def test_what_cannot_be_printed_is_not_quoted() -> None:
    assert shown([10**9000]) == "a value too long to print"
    assert len(shown("x" * 9000)) == 83
    with pytest.raises(InvalidInput, match="must be a whole number, got a value too long"):
        whole("it", [10**9000])


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None, 10**400])
def test_what_cannot_be_counted_is_named(value: Any) -> None:
    assert counted("n", np.int64(3)) == 3
    with pytest.raises(InvalidInput, match=r"^n must "):
        counted("n", value)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_inner_share_is_named(value: Any) -> None:
    assert between("x", np.float32(0.5)) == 0.5
    with pytest.raises(InvalidInput, match=r"^x must "):
        between("x", value)
