from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import gmpy2
import pytest

from trilemma.crypto.randomizers import FixedBase
from trilemma.entropy import System

if TYPE_CHECKING:
    from trilemma.crypto.paillier import PrivateKey


@pytest.mark.parametrize("bits", [1, 8, 9, 16, 17, 64])
def test_powers_are_pythons_own(bits: int) -> None:
    rng, modulus = random.Random(bits), 1009 * 2003
    for base in (2, 5, 123_456):
        table = FixedBase(gmpy2.mpz(base), gmpy2.mpz(modulus), bits)
        assert 8 * table.digits >= bits
        for digits in (bytes(table.digits), rng.randbytes(table.digits), b"\xff" * table.digits):
            exponent = int.from_bytes(digits, "little")
            assert table.power(digits) == pow(base, exponent, modulus**2)


def test_owner_and_public_randomizers_are_the_same_power(small: PrivateKey) -> None:
    p, q, h = small.reveal()
    n = gmpy2.mpz(p * q)
    digits = os.urandom(16)
    expected = pow(pow(h, int(n), int(n) ** 2), int.from_bytes(digits, "little"), int(n) ** 2)
    base = gmpy2.powmod(h, n, n**2)
    assert FixedBase(base, n, 128).power(digits) == expected

    class Fixed(System):
        def bytes(self, count: int) -> bytes:
            return digits[:count]

    assert small.randomizers(1, Fixed()) == small.public.randomizers(1, Fixed()) == [expected]


def test_a_randomizer_is_an_nth_residue(small: PrivateKey) -> None:
    p, q, _ = small.reveal()
    for r in small.randomizers(20, System()):
        assert pow(int(r), (p - 1) * (q - 1), (p * q) ** 2) == 1
