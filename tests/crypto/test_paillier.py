from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass

import gmpy2
import pytest
from phe import paillier as phe

from trilemma.crypto.ciphertexts import HEADER_BYTES, Ciphertexts
from trilemma.crypto.paillier import DEFAULT_BITS, PrivateKey, PublicKey
from trilemma.crypto.randomizers import FixedBase
from trilemma.entropy import Seeded, System
from trilemma.errors import ForeignCiphertext, InvalidInput, WeakKey

rng = random.Random(4)


@dataclass(frozen=True)
class Textbook:
    """Paillier's scheme letter by letter as the paper prints it, in plain Python: the oracle.

    Random g, lambda = lcm(p - 1, q - 1), mu = L(g^lambda mod n^2)^-1 mod n,
    c = g^m r^n mod n^2, m = L(c^lambda mod n^2) mu mod n.
    """

    p: int
    q: int
    g: int

    @staticmethod
    def make(p: int, q: int, rng: random.Random) -> Textbook:
        n = p * q
        while True:
            g = rng.randrange(1, n * n)
            if math.gcd(g, n) != 1:
                continue
            lam = math.lcm(p - 1, q - 1)
            if math.gcd((pow(g, lam, n * n) - 1) // n, n) == 1:
                return Textbook(p, q, g)

    @property
    def n(self) -> int:
        return self.p * self.q

    def encrypt(self, m: int, rng: random.Random) -> int:
        n = self.n
        while math.gcd(r := rng.randrange(1, n), n) != 1:
            pass
        return pow(self.g, m, n * n) * pow(r, n, n * n) % (n * n)

    def decrypt(self, c: int) -> int:
        n = self.n
        lam = math.lcm(self.p - 1, self.q - 1)
        mu = pow((pow(self.g, lam, n * n) - 1) // n, -1, n)
        return (pow(c, lam, n * n) - 1) // n * mu % n


def vector(key: PublicKey, *words: int, summands: int = 1) -> Ciphertexts:
    made = tuple(gmpy2.mpz(word) for word in words)
    return Ciphertexts(made, summands, key.fingerprint, key.ciphertext_bytes)


def test_generated_primes_satisfy_every_condition(real: PrivateKey) -> None:
    p, q, h = real.reveal()
    assert p.bit_length() == q.bit_length() == 1024
    assert real.public.bits == 2048
    assert p % 4 == q % 4 == 3
    assert math.gcd(p - 1, q - 1) == 2
    assert math.gcd(p * q, (p - 1) * (q - 1)) == 1
    assert gmpy2.jacobi(h, p) == gmpy2.jacobi(h, q) == -1  # minus a square


@pytest.mark.parametrize("owner", [True, False])
def test_agrees_with_the_textbook_scheme_both_ways(small: PrivateKey, owner: bool) -> None:
    p, q, _ = small.reveal()
    book = Textbook(p, q, p * q + 1)
    words = [0, 1, (1 << 255) - 1, *(rng.getrandbits(255) for _ in range(50))]
    encrypted = (small if owner else small.public).encrypt(words, System())
    assert [book.decrypt(int(c)) for c in encrypted.words] == words
    theirs = vector(small.public, *(book.encrypt(word, rng) for word in words))
    assert small.decrypt(theirs) == words


def test_the_textbook_scheme_with_random_g_decrypts_what_it_encrypts(small: PrivateKey) -> None:
    p, q, _ = small.reveal()
    book = Textbook.make(p, q, rng)
    assert book.g != p * q + 1
    a, b = rng.getrandbits(200), rng.getrandbits(200)
    c = book.encrypt(a, rng) * book.encrypt(b, rng) % book.n**2
    assert book.decrypt(c) == a + b


def test_interoperates_with_phe_both_ways(real: PrivateKey) -> None:
    p, q, _ = real.reveal()
    public = phe.PaillierPublicKey(p * q)
    private = phe.PaillierPrivateKey(public, p, q)
    words = [0, 1, (1 << 2047) - 1, rng.getrandbits(2000)]
    for key in (real, real.public):
        encrypted = key.encrypt(words, System())
        assert [private.raw_decrypt(int(c)) for c in encrypted.words] == words
    theirs = vector(real.public, *(public.raw_encrypt(word) for word in words))
    assert real.decrypt(theirs) == words
    mixed = real.public.add([theirs, real.public.encrypt([5] * 4, System())])
    assert real.decrypt(mixed) == [(word + 5) % (p * q) for word in words]


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


def test_sums_count_their_summands_and_rerandomise(small: PrivateKey) -> None:
    public, entropy = small.public, System()
    parts = [public.encrypt([k, 2 * k], entropy) for k in range(1, 11)]
    total = public.add(iter(parts))
    assert total.summands == 10
    assert small.decrypt(total) == [55, 110]
    fresh = public.rerandomise(total, entropy)
    assert fresh.summands == 10
    assert small.decrypt(fresh) == [55, 110]
    assert not set(fresh.words) & set(total.words)


def test_encrypting_twice_gives_two_ciphertexts(small: PrivateKey) -> None:
    a, b = (small.encrypt([7, 7], System()) for _ in range(2))
    assert len({*a.words, *b.words}) == 4


def test_the_wire_carries_exactly_the_stated_bytes(real: PrivateKey) -> None:
    encrypted = real.encrypt([1, 2, 3], System())
    message = encrypted.to_bytes()
    assert len(message) == HEADER_BYTES + 3 * real.public.ciphertext_bytes
    assert real.public.ciphertext_bytes == 512
    assert real.public.receive(message) == encrypted


def test_malformed_messages_are_refused(small: PrivateKey) -> None:
    public = small.public
    message = small.encrypt([1, 2], System()).to_bytes()
    with pytest.raises(ForeignCiphertext, match="not a Paillier vector"):
        public.receive(b"junk")
    with pytest.raises(ForeignCiphertext, match="cut or altered"):
        public.receive(message[:-1])
    with pytest.raises(ForeignCiphertext, match="0 summands"):
        public.receive(message[:24] + bytes(4) + message[28:])
    p, _, _ = small.reveal()
    for bad in (0, public.n**2, public.n**2 + 1):
        with pytest.raises(ForeignCiphertext, match="outside"):
            public.receive(vector(public, 5, bad).to_bytes())
    for bad in (p, public.n, 3 * p):
        with pytest.raises(ForeignCiphertext, match="shares a factor"):
            public.receive(vector(public, 5, bad, 7).to_bytes())


def test_another_keys_ciphertexts_are_refused_everywhere(small: PrivateKey) -> None:
    other = PrivateKey.generate(System(), bits=256, insecure=True)
    foreign = other.encrypt([1], System())
    own = small.encrypt([1], System())
    with pytest.raises(ForeignCiphertext, match="same key file"):
        small.public.receive(foreign.to_bytes())
    with pytest.raises(ForeignCiphertext):
        small.public.add([own, foreign])
    with pytest.raises(ForeignCiphertext):
        small.decrypt(foreign)
    with pytest.raises(ForeignCiphertext):
        small.public.rerandomise(foreign, System())


def test_unequal_or_no_vectors_do_not_add(small: PrivateKey) -> None:
    with pytest.raises(InvalidInput, match="2 and 1 words"):
        small.public.add([small.encrypt([1, 2], System()), small.encrypt([1], System())])
    with pytest.raises(InvalidInput, match="nothing to add"):
        small.public.add([])


def test_plaintexts_outside_the_range_are_refused(small: PrivateKey) -> None:
    for word in (-1, 1 << 255):
        with pytest.raises(InvalidInput, match="plaintext 1"):
            small.encrypt([0, word], System())


def test_keys_below_the_floor_need_the_word_insecure() -> None:
    with pytest.raises(WeakKey, match="1024 bits is below the floor of 2048"):
        PrivateKey.generate(System(), bits=1024)
    with pytest.raises(WeakKey):
        PublicKey(15, 4)
    assert DEFAULT_BITS == 3072
    assert PrivateKey.generate.__kwdefaults__ == {"bits": DEFAULT_BITS, "insecure": False}


@pytest.mark.parametrize(
    ("bits", "match"),
    [(2050, "multiple of 16"), (48, "64 .. 16384 bits, got 48"), (1 << 40, "64 .. 16384 bits")],
)
def test_odd_key_lengths_are_refused(bits: int, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        PrivateKey.generate(System(), bits=bits, insecure=True)


def test_unsound_primes_are_refused(small: PrivateKey) -> None:
    p, q, h = small.reveal()
    composite = q + 4 * next(i for i in range(1, 99) if (q + 4 * i) % 3 == 0)
    for a, b in ((p, p), (p, composite), (7, q), (p, q * 2)):
        with pytest.raises(InvalidInput, match="not a private key"):
            PrivateKey(a, b, h, insecure=True)
    for a, b in ((-p, -q), (-p, q), (0, q)):
        with pytest.raises(InvalidInput):
            PrivateKey(a, b, h, insecure=True)
    with pytest.raises(InvalidInput, match=r"64 .. 16384 bits, got 40000"):
        PrivateKey(1 << 20_000, 1 << 19_999, h)  # before hours of proving that they are prime


def unit_of_order(order: int, p: int, q: int) -> int:
    """A number of exactly this prime order modulo p, and 1 modulo q."""
    root = next(
        root for g in range(2, 99) if (root := pow(g, (p - 1) // order, p)) != 1
    )  # fails where the order does not divide p - 1
    return (root * q * pow(q, -1, p) + p * pow(p, -1, q)) % (p * q)


def next_prime(start: int, remainder: int, modulus: int) -> int:
    """The first prime from `start` on with this remainder."""
    candidate = start + (remainder - start) % modulus
    while not gmpy2.is_prime(candidate):
        candidate += modulus
    return candidate


def test_degenerate_bases_are_refused(small: PrivateKey) -> None:
    """h = 1 makes every randomizer 1, and a small order makes them guessable."""
    p, q, h = small.reveal()
    n = p * q
    root_of_one = (p * pow(p, -1, q) - q * pow(q, -1, p)) % n
    assert root_of_one**2 % n == 1
    for bad in (0, n, n + h, -h, p, 3 * q):
        with pytest.raises(InvalidInput, match="h is not a unit modulo n; make one with"):
            PublicKey(n, bad, insecure=True)
    for bad in (1, n - 1, root_of_one, n - root_of_one):
        with pytest.raises(InvalidInput, match="h has a tiny order"):
            PublicKey(n, bad, insecure=True)
        with pytest.raises(InvalidInput, match="h has a tiny order"):
            PrivateKey(p, q, bad, insecure=True)
    with pytest.raises(InvalidInput, match="h has a tiny order"):
        PublicKey(n, 1 + p, insecure=True)  # 1 modulo p alone, which gives p away


@pytest.mark.parametrize("order", [3, 5, 7, 11, 13])
def test_bases_of_small_order_are_refused(order: int) -> None:
    p, q = next_prime(1 << 128, 1, order), next_prime(1 << 129, 3, 4)
    bad = unit_of_order(order, p, q)
    assert pow(bad, order, p * q) == 1
    with pytest.raises(InvalidInput, match="h has a tiny order"):
        PublicKey(p * q, bad, insecure=True)


def test_moduli_that_hide_nothing_are_refused(small: PrivateKey) -> None:
    p, q, _ = small.reveal()
    prime = next_prime(1 << 255, 1, 2)
    for n, why in (
        (prime, "a prime"),
        (2 * p * q, "a small factor"),
        (3 * prime, "a small factor"),
        (1 << 256, "a small factor"),
        (-p * q, "a small factor"),
        (p * p, "a power"),
        (p**3, "a power"),
    ):
        with pytest.raises(InvalidInput, match=f"not a public key: n (is|has) {why}"):
            PublicKey(n, 4, insecure=True)
    for n in (0, 1, 15, -15):
        with pytest.raises(InvalidInput, match=r"64 .. 16384 bits"):
            PublicKey(n, 4, insecure=True)
    with pytest.raises(InvalidInput, match=r"64 .. 16384 bits, got 16385"):
        PublicKey(1 << 16_384, 4)


def test_only_system_entropy_is_accepted(small: PrivateKey) -> None:
    seeded: System = Seeded(1)  # type: ignore[assignment]
    for attempt in (
        lambda: PrivateKey.generate(seeded, bits=256, insecure=True),
        lambda: small.encrypt([1], seeded),
        lambda: small.public.encrypt([1], seeded),
        lambda: small.public.rerandomise(small.encrypt([1], System()), seeded),
    ):
        with pytest.raises(InvalidInput, match="System"):
            attempt()
