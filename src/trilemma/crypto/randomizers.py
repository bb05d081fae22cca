"""Where Paillier's time goes: the random factor h_s^a of each ciphertext, by fixed-base tables."""

from __future__ import annotations

import os
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import gmpy2
from gmpy2 import mpz

from trilemma.crypto.sealed import Sealed, require_system
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["FixedBase", "RandomizerPool", "RandomizerSource"]

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


class RandomizerSource(Protocol):
    """What can make randomizers: a public key, or faster, a private one."""

    @property
    def fingerprint(self) -> bytes: ...

    def randomizers(self, count: int, entropy: System) -> list[mpz]: ...


class RandomizerPool(Sealed):
    """Randomizers made ahead; each is handed out once, and a forked child starts with none.

    A randomizer used twice gives away the difference of the two plaintexts, so the pool lives in
    memory only and a child process never inherits it.
    """

    __slots__ = ("__weakref__", "_entropy", "_ready", "_source")

    def __init__(self, source: RandomizerSource, entropy: System) -> None:
        self._source = source
        self._entropy = require_system(entropy)
        self._ready: deque[mpz] = deque()
        _POOLS.add(self)

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def fingerprint(self) -> bytes:
        return self._source.fingerprint

    def refill(self, count: int) -> None:
        """Makes randomizers until `count` are ready."""
        missing = count - len(self._ready)
        if missing > 0:
            self._ready.extend(self._source.randomizers(missing, self._entropy))

    def take(self, count: int) -> list[mpz]:
        """Removes `count` randomizers, and makes those that are missing."""
        if count < 0:
            raise InvalidInput(f"the number of randomizers must not be negative, got {count}.")
        taken: list[mpz] = []
        with suppress(IndexError):  # popleft is atomic, so threads never share a randomizer
            while len(taken) < count:
                taken.append(self._ready.popleft())
        taken.extend(self._source.randomizers(count - len(taken), self._entropy))
        return taken

    def clear(self) -> None:
        """Forgets every randomizer."""
        self._ready.clear()


_POOLS: Final[weakref.WeakSet[RandomizerPool]] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for pool in list(_POOLS):
        pool.clear()


if hasattr(os, "register_at_fork"):  # where there is no fork, nothing can be inherited
    os.register_at_fork(after_in_child=_forget_after_fork)
