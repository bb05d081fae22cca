"""The law of ciphertexts that are taken as uniform."""

from __future__ import annotations

import math

import pytest

from trilemma.errors import InvalidInput
from trilemma.paper_framework.mechanisms import mechanism
from trilemma.paper_framework.mechanisms.base import Strength
from trilemma.paper_framework.profile import Profile


def test_the_optimum_is_a_modulus_of_about_the_root_of_two_deltas() -> None:
    """Theorem optimal_he by hand: n* = √(2δ) (1 - q)^{-1/(2m)}, printed without the "1 -"."""
    each, profile = mechanism("paillier"), Profile(3, delta=0.5)
    assert each.value(each.inverse(0.3, profile)).value == pytest.approx(0.7 ** (-1 / 6))
    printed = each.value(each.inverse(0.3, profile, "printed")).value
    assert printed == pytest.approx(0.3 ** (-1 / 6))
    assert each.reached(0.3, "printed") == pytest.approx(0.7)


def test_decryption_costs_no_utility_and_the_box_must_be_known() -> None:
    each = mechanism("paillier")
    assert each.utility_bound(Strength(3.0), Profile(3, delta=0.5), 1.0, "corrected", 2) == 0.0
    assert each.anchor(Profile(3, delta=0.5)) == pytest.approx(math.log(1.0))
    with pytest.raises(InvalidInput, match="delta"):
        each.inverse(0.3, Profile(3))
