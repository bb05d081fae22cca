"""Where Paillier's time goes: the random factor h_s^a of each ciphertext, by fixed-base tables."""

from __future__ import annotations

from typing import Final

import gmpy2
from gmpy2 import mpz

from trilemma.crypto.sealed import Sealed

__all__ = ["FixedBase"]

_WINDOW: Final = 8  # bits per digit: a digit is a byte, and a 2048-bit key's table takes 25 MB


class FixedBase(Sealed):
    """Powers of one unit modulo m^2, one table row per base-256 digit of the exponent.

    base^a = Π_i row_i[a_i] with row_i[d] = base^(d 256^i): no squarings. Each entry t is stored
    as the pair (r, s) with t = r (1 + m s) mod m^2 and r = t mod m. As (1 + m s)(1 + m s') =
    1 + m (s + s'), the second factors cost an addition each, and the first are half as long as
    the modulus: a pair of them multiplies without reduction. That halves the work of a plain
    table, for m = n (public key) as for m = p, q (key owner).

    >>> FixedBase(mpz(5), mpz(77), 9).power(bytes([7, 1])) == pow(5, 7 + 256, 77**2)
    True
    """

    __slots__ = ("_modulus", "_rows", "_square", "digits")

    def __init__(self, base: mpz, modulus: mpz, bits: int) -> None:
        self._modulus = modulus
        self._square = modulus * modulus
        self.digits = 2 * -(-bits // (2 * _WINDOW))  # even: the product goes in pairs
        self._rows: list[list[tuple[mpz, mpz]]] = []
        for _ in range(self.digits):
            powers = [mpz(1)]
            while len(powers) < 1 << _WINDOW:
                powers.append(powers[-1] * base % self._square)
            base = powers[-1] * base % self._square
            self._rows.append(self._split(powers))

    def _split(self, powers: list[mpz]) -> list[tuple[mpz, mpz]]:
        """(r, s) of each power t = r + m b: s = b / r mod m, with one inversion for the row."""
        modulus = self._modulus
        halves = [gmpy2.f_divmod(power, modulus) for power in powers]
        before, product = [], mpz(1)
        for _, low in halves:
            before.append(product)
            product = product * low % modulus
        inverse = gmpy2.invert(product, modulus)
        row = []
        for (high, low), prefix in zip(reversed(halves), reversed(before), strict=True):
            row.append((low, high * (prefix * inverse % modulus) % modulus))
            inverse = inverse * low % modulus
        return row[::-1]

    def power(self, digits: bytes) -> mpz:
        """base^a mod m^2 for the exponent a with these base-256 digits, the lowest first."""
        square, product, shift = self._square, mpz(1), mpz(0)
        entries = iter([row[digit] for row, digit in zip(self._rows, digits, strict=True)])
        for (low, high), (other_low, other_high) in zip(entries, entries, strict=True):
            product = product * (low * other_low) % square
            shift += high + other_high
        return product * (1 + self._modulus * shift) % square
