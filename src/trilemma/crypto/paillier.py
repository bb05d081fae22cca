"""Paillier's additively homomorphic encryption, with g = n + 1 and DJN randomizers, on gmpy2.

Encryption is c = (1 + m n) h_s^a mod n^2 with h_s = h^n, h = -x^2 mod n and a of half the
modulus' length (Damgård, Jurik and Nielsen): semantic security rests on decisional composite
residuosity and on h generating a subgroup in which that stays hard. The scheme hides; it does not
authenticate: a carrier of a ciphertext can change its plaintext. The arithmetic does not run
in constant time, so keys belong on machines that their owners alone use.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import gmpy2
from gmpy2 import mpz

from trilemma.crypto.ciphertexts import Ciphertexts
from trilemma.crypto.randomizers import FixedBase
from trilemma.crypto.sealed import Sealed, require_system
from trilemma.errors import ForeignCiphertext, InvalidInput, WeakKey
from trilemma.quantities import whole

if TYPE_CHECKING:
    from trilemma.entropy import System

__all__ = ["CEILING_BITS", "DEFAULT_BITS", "FLOOR_BITS", "PrivateKey", "PublicKey", "check_bits"]

DEFAULT_BITS: Final = 3072  # 128-bit security
FLOOR_BITS: Final = 2048  # 112-bit security
CEILING_BITS: Final = 16_384  # beyond 256-bit security; longer ones only cost time
_LEAST_BITS: Final = 64  # of a key for tests
_PRIME_ROUNDS: Final = 64
_SMALL_FACTORS: Final = 1 << 16  # every prime of a key is larger
_SMALL_ORDERS: Final = math.lcm(*range(1, 17))


def check_bits(bits: int, *, insecure: bool = False) -> None:
    """Raises unless keys of this length are used: neither weak nor endless."""
    bits = whole("bits (length of the key)", bits)
    if bits < FLOOR_BITS and not insecure:
        raise WeakKey(
            f"a key of {bits} bits is below the floor of {FLOOR_BITS}; "
            f"use {DEFAULT_BITS} (insecure=True is for tests)."
        )
    if not _LEAST_BITS <= bits <= CEILING_BITS:
        raise InvalidInput(
            f"a key has {_LEAST_BITS} .. {CEILING_BITS} bits, got {bits}; use {DEFAULT_BITS}."
        )


@dataclass(frozen=True, repr=False)
class PublicKey:
    """The modulus n and the DJN base h: enough to encrypt, to add and to re-randomise."""

    n: int
    h: int
    insecure: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        check_bits(self.n.bit_length(), insecure=self.insecure)
        if fault := _fault(mpz(self.n), mpz(self.h)):
            raise InvalidInput(f"not a public key: {fault}; make one with `trilemma keys new`.")

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, {self.fingerprint.hex()[:16]})"

    def __reduce__(self) -> tuple[type[PublicKey], tuple[int, int, bool]]:
        return PublicKey, (self.n, self.h, self.insecure)  # without the tables

    @property
    def bits(self) -> int:
        """|n|, the key length."""
        return self.n.bit_length()

    @property
    def plaintext_bits(self) -> int:
        """Every integer of this many bits is a plaintext: 2^(|n| - 1) <= n."""
        return self.bits - 1

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one ciphertext on the wire: 2 |n| / 8."""
        return 2 * -(-self.bits // 8)

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes that tell this key's ciphertexts from another's."""
        modulus = self.n.to_bytes(-(-self.bits // 8), "big")
        return hashlib.sha256(b"trilemma paillier" + modulus).digest()[:16]

    @cached_property
    def _square(self) -> mpz:
        return mpz(self.n) ** 2

    @cached_property
    def _table(self) -> FixedBase:
        n = mpz(self.n)
        return FixedBase(gmpy2.powmod(self.h, n, self._square), n, self.bits // 2)

    def randomizers(self, count: int, entropy: System) -> list[mpz]:
        """`count` independent values h_s^a mod n^2, a uniform of |n|/2 bits."""
        require_system(entropy)
        size, power = self._table.digits, self._table.power
        return [power(entropy.bytes(size)) for _ in range(count)]

    def encrypt(self, words: Sequence[int], entropy: System) -> Ciphertexts:
        """One ciphertext per word, each with a fresh randomizer."""
        return _encrypt(self, self, words, entropy)

    def add(self, vectors: Iterable[Ciphertexts]) -> Ciphertexts:
        """The encrypted sum, word by word: Π c mod n^2. The numbers of summands add up.

        The vectors are taken one at a time, so an iterable that reads them from the network
        never holds more than two. The sum must be re-randomised before it leaves its maker.
        """
        square, total = self._square, None
        for vector in vectors:
            self.check(vector)
            if total is None:
                total = vector
                continue
            if len(vector.words) != len(total.words):
                raise InvalidInput(
                    f"encrypted vectors of {len(total.words)} and {len(vector.words)} words "
                    "cannot be added; every client must send an update of the same length."
                )
            words = [a * b % square for a, b in zip(total.words, vector.words, strict=True)]
            total = self._wrap(words, total.summands + vector.summands)
        if total is None:
            raise InvalidInput("there is nothing to add; pass at least one encrypted vector.")
        return total

    def rerandomise(self, vector: Ciphertexts, entropy: System) -> Ciphertexts:
        """The same plaintexts under fresh randomizers, unlinkable to the vector that came in."""
        self.check(vector)
        fresh = self.randomizers(len(vector.words), entropy)
        words = [c * r % self._square for c, r in zip(vector.words, fresh, strict=True)]
        return self._wrap(words, vector.summands)

    def receive(self, message: bytes) -> Ciphertexts:
        """The vector that came over the wire, checked: 0 < c < n^2 and gcd(c, n) = 1 throughout.

        One gcd of the product serves the whole vector: it is 1 if and only if each one is.
        """
        vector = Ciphertexts.from_bytes(message)
        self.check(vector)
        n, product = mpz(self.n), mpz(1)
        for index, word in enumerate(vector.words):
            if not 0 < word < self._square:
                raise ForeignCiphertext(
                    f"ciphertext {index} lies outside 1 .. n^2 - 1; it was altered, ask again."
                )
            product = product * word % n
        if gmpy2.gcd(product, n) != 1:
            raise ForeignCiphertext(
                "a ciphertext shares a factor with the modulus; it was altered, ask again."
            )
        return vector

    def check(self, vector: Ciphertexts) -> None:
        """Raises unless the vector says that it was made under this key."""
        if vector.fingerprint != self.fingerprint or vector.width != self.ciphertext_bytes:
            raise ForeignCiphertext(
                f"the ciphertexts were made under key {vector.fingerprint.hex()[:16]}, this is "
                f"{self.fingerprint.hex()[:16]}; give every client the same key file."
            )

    def _check_words(self, words: Sequence[int]) -> None:
        """Raises unless every word is a plaintext of `plaintext_bits` bits."""
        limit = 1 << self.plaintext_bits
        for index, word in enumerate(words):
            if not 0 <= word < limit:
                raise InvalidInput(
                    f"plaintext {index} lies outside 0 .. 2^{self.plaintext_bits} - 1; "
                    "pack for this key's plaintext_bits."
                )

    def _wrap(self, words: list[mpz], summands: int) -> Ciphertexts:
        return Ciphertexts(tuple(words), summands, self.fingerprint, self.ciphertext_bytes)


class PrivateKey(Sealed):
    """The primes p and q, and the public key: decrypts, and encrypts faster by CRT.

    p = q = 3 mod 4, gcd(p - 1, q - 1) = 2, |p| = |q| and gcd(p q, (p - 1)(q - 1)) = 1, where the
    paper prints (p - q)(q - 1) (erratum E19). A holder reads every client's ciphertext.
    """

    def __init__(self, p: int, q: int, h: int, *, insecure: bool = False) -> None:
        p, q = mpz(p), mpz(q)
        check_bits((p * q).bit_length(), insecure=insecure)  # first: huge primes take hours
        _check_primes(p, q)
        self.public: Final = PublicKey(int(p * q), int(h), insecure)
        self._p, self._q = p, q
        self._p2, self._q2 = p * p, q * q
        self._hp, self._hq = gmpy2.invert(-q, p), gmpy2.invert(-p, q)  # L(g^(p-1))^-1 = (-q)^-1
        self._p_inverse = gmpy2.invert(p, q)
        self._p2_inverse = gmpy2.invert(self._p2, self._q2)

    @classmethod
    def generate(
        cls, entropy: System, *, bits: int = DEFAULT_BITS, insecure: bool = False
    ) -> PrivateKey:
        """A new key of `bits` bits. Every prime candidate is drawn afresh, so none is favoured."""
        require_system(entropy)
        check_bits(bits, insecure=insecure)
        if bits % 16:
            raise InvalidInput(f"bits must be a multiple of 16, got {bits}.")
        while not _fit(p := _prime(bits // 2, entropy), q := _prime(bits // 2, entropy)):
            pass
        n = int(p * q)
        while gmpy2.gcd(x := entropy.below(n), n) != 1:
            pass
        return cls(int(p), int(q), -x * x % n, insecure=insecure)

    @cached_property
    def _tables(self) -> tuple[FixedBase, FixedBase]:
        n, h, bits = mpz(self.public.n), self.public.h, self.public.bits // 2
        return (
            FixedBase(gmpy2.powmod(h, n, self._p2), self._p, bits),
            FixedBase(gmpy2.powmod(h, n, self._q2), self._q, bits),
        )

    def randomizers(self, count: int, entropy: System) -> list[mpz]:
        """The public key's h_s^a, computed modulo p^2 and q^2 and joined."""
        require_system(entropy)
        table_p, table_q = self._tables
        p2, q2, inverse, made = self._p2, self._q2, self._p2_inverse, []
        for _ in range(count):
            digits = entropy.bytes(table_p.digits)
            low = table_p.power(digits)
            made.append(low + p2 * ((table_q.power(digits) - low) * inverse % q2))
        return made

    def encrypt(self, words: Sequence[int], entropy: System) -> Ciphertexts:
        """As the public key's `encrypt`, by CRT."""
        return _encrypt(self.public, self, words, entropy)

    def decrypt(self, vector: Ciphertexts) -> list[mpz]:
        """The plaintexts: m = L(c^(p-1) mod p^2) (-q)^-1 mod p, the same for q, joined by CRT."""
        self.public.check(vector)
        p, q, p2, q2 = self._p, self._q, self._p2, self._q2
        words = []
        for c in vector.words:
            low = (gmpy2.powmod(c, p - 1, p2) - 1) // p * self._hp % p
            high = (gmpy2.powmod(c, q - 1, q2) - 1) // q * self._hq % q
            words.append(low + p * ((high - low) * self._p_inverse % q))
        return words

    def reveal(self) -> tuple[int, int, int]:
        """(p, q, h), for a key file: handle as the secret that it is."""
        return int(self._p), int(self._q), self.public.h


def _encrypt(
    key: PublicKey, source: PublicKey | PrivateKey, words: Sequence[int], entropy: System
) -> Ciphertexts:
    key._check_words(words)
    n = mpz(key.n)
    fresh = source.randomizers(len(words), entropy)
    # (1 + m n) r = r + n (m r mod n) mod n^2: half-length products
    made = [(r + n * (word * r % n)) % key._square for word, r in zip(words, fresh, strict=True)]
    return key._wrap(made, 1)


def _prime(bits: int, entropy: System) -> mpz:
    """A uniform prime = 3 mod 4 with two top bits set, so that n has exactly twice the bits."""
    fixed = (3 << (bits - 2)) | 3
    while not gmpy2.is_prime(candidate := mpz(entropy.bits(bits) | fixed), _PRIME_ROUNDS):
        pass
    return candidate


def _fault(n: mpz, h: mpz) -> str | None:
    """What makes the pair no public key, as far as it shows without the factors of n."""
    if n < 0 or gmpy2.gcd(n, gmpy2.primorial(_SMALL_FACTORS)) != 1:
        return "n has a small factor"
    if gmpy2.is_prime(n):
        return "n is a prime"
    if gmpy2.is_power(n):
        return "n is a power of another number"
    if not 0 < h < n or gmpy2.gcd(h, n) != 1:
        return "h is not a unit modulo n"
    if gmpy2.gcd(gmpy2.powmod(h, _SMALL_ORDERS, n) - 1, n) != 1:
        return "h has a tiny order, so that its powers hide nothing"
    return None


def _fit(p: mpz, q: mpz) -> bool:
    """Whether two primes, 3 mod 4 each, make a key."""
    gcd = gmpy2.gcd
    return bool(p != q and gcd(p - 1, q - 1) == 2 and gcd(p * q, (p - 1) * (q - 1)) == 1)


def _check_primes(p: mpz, q: mpz) -> None:
    sound = (
        min(p, q) > 0
        and p.bit_length() == q.bit_length()
        and p % 4 == q % 4 == 3
        and _fit(p, q)
        and gmpy2.is_prime(p)
        and gmpy2.is_prime(q)
    )
    if not sound:
        raise InvalidInput(
            "not a private key: p and q must be distinct primes of one length, 3 mod 4, with "
            "gcd(p - 1, q - 1) = 2; make one with PrivateKey.generate."
        )
