from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import dataclass

import gmpy2
import pytest
from phe import paillier as phe

from trilemma.crypto.ciphertexts import Ciphertexts
from trilemma.crypto.paillier import DEFAULT_BITS, PrivateKey, PublicKey
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
    """A number of exactly this order, a prime that divides p - 1 and q - 1, modulo p and q."""
    of_p, of_q = (
        next(root for g in range(2, 99) if (root := pow(g, (prime - 1) // order, prime)) != 1)
        for prime in (p, q)
    )
    return (of_p * q * pow(q, -1, p) + of_q * p * pow(p, -1, q)) % (p * q)


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
    p, q = next_prime(1 << 128, 1, order), next_prime(1 << 129, 1, order)
    bad = unit_of_order(order, p, q)
    assert pow(bad, order, p * q) == 1
    assert math.gcd(bad - 1, p * q) == 1
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


ROUND = """
import resource
import numpy as np
from trilemma.crypto.packing import FixedPoint, Packing
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

key, entropy, m, clients = PrivateKey.generate(System(), bits=2048), System(), 1_000_000, 10
packing = Packing(FixedPoint(clip=1.0), key.public.plaintext_bits)
expected, sent = np.zeros(m, np.int64), []

def messages():
    for client in range(clients):
        update = np.random.default_rng(client).uniform(-1, 1, m)
        expected[:] += packing.fixed.quantise(update)
        message = key.encrypt(packing.pack(update), entropy).to_bytes()
        sent.append(len(message))
        yield key.public.receive(message)

total = key.public.add(messages())
result = packing.unpack(key.decrypt(total), m, total.summands)
assert (result.units == expected).all()
assert max(sent) <= 6.1 * m, sent
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_million_parameters_of_ten_clients_stay_below_two_gibibytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUND], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < 2 * 1024**3
