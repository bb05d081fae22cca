from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gmpy2
import numpy as np
import pytest

from trilemma.crypto.packing import FixedPoint, Packing
from trilemma.entropy import System
from trilemma.errors import ForeignCiphertext, InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.crypto.paillier import PrivateKey

CASES = 10_000


def units_by_hand(x: float, fixed: FixedPoint) -> int:
    """Round-half-even of x / step in exact arithmetic; independent of NumPy."""
    levels: int = 2 ** (fixed.bits - 1) - 1
    return round(Fraction(x) * levels / Fraction(fixed.clip))


def random_units(rng: random.Random, fixed: FixedPoint, count: int) -> list[int]:
    top = 2 ** (fixed.bits - 1) - 1
    kind = rng.randrange(4)
    if kind == 0:
        return [top] * count
    if kind == 1:
        return [-top] * count
    if kind == 2:
        return [rng.choice((-top, 0, top)) for _ in range(count)]
    return [rng.randint(-top, top) for _ in range(count)]


def random_weights(rng: random.Random, cap: int, clients: int) -> list[int]:
    """Positive weights that add up to at most the cap, and often to the cap itself."""
    if clients == cap:
        return [1] * clients
    cuts = sorted(rng.sample(range(1, cap), clients - 1)) if clients > 1 else []
    weights = [b - a for a, b in zip([0, *cuts], [*cuts, cap], strict=True)]
    return weights if rng.random() < 0.5 else [max(1, w // 2) for w in weights]


def test_ten_thousand_packed_sums_equal_integer_arithmetic() -> None:
    """Each case: its own precision, cap, plaintext size, number of clients (1 .. 1000), values."""
    rng = random.Random(20)
    clients_seen: list[int] = []
    while (case := len(clients_seen)) < CASES:
        bits = rng.choice((2, 3, 8, 12, 16, 24, 32))
        clients = (
            (1, 2, 1000)[case % 3]
            if case < 60
            else int(10 ** rng.uniform(0, 3 if case % 40 == 0 else 1.4))
        )
        if rng.random() < 0.5:
            cap = clients + rng.choice((0, 0, 1, 50))
        else:
            cap = rng.randrange(clients, 1 << rng.randrange(clients.bit_length(), 28)) + 1
        fixed = FixedPoint(clip=2.0 ** rng.randrange(-8, 8), bits=bits, max_weight=cap)
        packing = Packing(fixed, plaintext_bits=rng.choice((128, 255, 511, 2047)))
        if clients > packing.max_summands:
            continue  # refused by name: see below
        clients_seen.append(clients)
        length = rng.randrange(1, 8)
        weights = random_weights(rng, cap, clients)
        sums = [0] * length
        words = [gmpy2.mpz(0)] * packing.words(length)
        for weight in weights:
            units = random_units(rng, fixed, length)
            values = np.array(units) * (fixed.clip / fixed.levels)
            sums = [s + weight * u for s, u in zip(sums, units, strict=True)]
            words = [a + b for a, b in zip(words, packing.pack(values, weight), strict=True)]
        result = packing.unpack(words, length, clients)
        assert result.units.tolist() == sums
        assert result.weight == sum(weights)
        assert result.total.tolist() == [s * fixed.step for s in sums]
    assert {1, 2, 1000} < set(clients_seen)
    assert len(set(clients_seen)) > 100


def test_packed_sums_survive_encryption(small: PrivateKey) -> None:
    rng = random.Random(21)
    public = small.public
    for _ in range(150):
        clients = rng.randrange(1, 6)
        fixed = FixedPoint(clip=1.0, bits=rng.choice((8, 16)), max_weight=rng.choice((5, 1000)))
        packing = Packing(fixed, public.plaintext_bits)
        length = rng.randrange(0, 40)
        weights = random_weights(rng, fixed.max_weight, clients)
        drawn = [random_units(rng, fixed, length) for _ in weights]
        encrypted = (
            public.encrypt(packing.pack(np.array(units) * fixed.step, weight), System())
            for units, weight in zip(drawn, weights, strict=True)
        )
        total = public.rerandomise(public.add(encrypted), System())
        result = packing.unpack(small.decrypt(total), length, total.summands)
        expected = [
            sum(w * u[i] for w, u in zip(weights, drawn, strict=True)) for i in range(length)
        ]
        assert result.units.tolist() == expected
        assert result.weight == sum(weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("bits", "clip"), [(16, 0.1), (8, 3.0), (24, 1e-3)])
def test_quantisation_matches_exact_rounding(dtype: type, bits: int, clip: float) -> None:
    fixed = FixedPoint(clip, bits)
    rng = np.random.default_rng(3)
    spread = np.concatenate([rng.uniform(-clip, clip, 500), [0.0, clip, -clip]])
    values: NDArray[Any] = spread.astype(dtype)
    units = fixed.quantise(values)
    exact = [units_by_hand(float(x), fixed) for x in values]
    # a product rounded in double precision may turn a near tie; it never moves further
    assert np.abs(units - exact).max() <= 1
    assert (units != exact).mean() < 0.01
    assert units[-3:].tolist() == [0, fixed.levels, -fixed.levels]


def test_a_mean_is_within_half_a_step() -> None:
    rng = np.random.default_rng(5)
    fixed = FixedPoint(clip=1.0, max_weight=600)
    packing = Packing(fixed, 2047)
    updates = rng.uniform(-1, 1, (10, 3000)).astype(np.float32)
    weights = rng.integers(1, 60, 10)
    words = [sum(w) for w in zip(*map(packing.pack, updates, weights), strict=True)]
    mean = packing.unpack(words, 3000, 10).mean
    exact = (weights / weights.sum()) @ updates.astype(np.float64)
    assert np.abs(mean - exact).max() <= fixed.step / 2 * (1 + 1e-9)


def test_the_promised_bytes_a_parameter() -> None:
    packing = Packing(FixedPoint(clip=1.0, bits=16, max_weight=100), plaintext_bits=2047)
    assert (packing.slots, packing.slot_bytes) == (85, 3)
    assert packing.words(1_000_000) * 512 / 1_000_000 <= 6.1
    assert packing.max_summands == 100


def test_more_summands_than_the_slots_hold_raise() -> None:
    packing = Packing(FixedPoint(clip=1.0, max_weight=3), 255)
    words = packing.pack(np.ones(4))
    four = [4 * w for w in words]
    with pytest.raises(InvalidInput, match="4 updates"):
        packing.unpack(four, 4, summands=4)
    with pytest.raises(ForeignCiphertext, match="add up to 4"):
        packing.unpack(four, 4, summands=3)  # the count lies, the weights do not


@pytest.mark.parametrize("heavy", [2, 5, 128])
def test_weights_above_the_cap_raise_even_where_slots_overflow(
    heavy: int, small: PrivateKey
) -> None:
    """Each weight is admissible, their sum is not; value slots overflow into their neighbours."""
    fixed = FixedPoint(clip=1.0, bits=8, max_weight=128)
    packing = Packing(fixed, small.public.plaintext_bits)
    assert heavy <= packing.max_summands
    message = packing.pack(np.ones(20), 128)
    with pytest.raises(ForeignCiphertext, match=f"add up to {heavy * 128},"):
        packing.unpack([heavy * w for w in message], 20, heavy)
    encrypted = small.encrypt(message, System())
    total = small.public.add([encrypted] * heavy)
    with pytest.raises(ForeignCiphertext, match=f"add up to {heavy * 128},"):
        packing.unpack(small.decrypt(total), 20, total.summands)


def test_random_plaintexts_are_noticed() -> None:
    """What a foreign key or a tampered ciphertext decrypts to is uniform; no slot fits by luck."""
    rng = random.Random(6)
    packing = Packing(FixedPoint(clip=1.0), 2047)
    words = packing.pack(np.zeros(83))
    for _ in range(200):
        words[0] = gmpy2.mpz(rng.getrandbits(2040))
        with pytest.raises(ForeignCiphertext):
            packing.unpack(words, 83, 1)
    words[0] = gmpy2.mpz(1 | 1 << 2046)
    with pytest.raises(ForeignCiphertext, match="longer than its slots"):
        packing.unpack(words, 83, 1)


def test_a_tampered_ciphertext_is_noticed(small: PrivateKey) -> None:
    packing = Packing(FixedPoint(clip=1.0), small.public.plaintext_bits)
    encrypted = small.encrypt(packing.pack(np.zeros(30)), System())
    message = bytearray(encrypted.to_bytes())
    message[-40] ^= 1
    received = small.public.receive(bytes(message))
    with pytest.raises(ForeignCiphertext):
        packing.unpack(small.decrypt(received), 30, received.summands)


def test_wrong_lengths_are_refused() -> None:
    packing = Packing(FixedPoint(clip=1.0), 255)
    words = packing.pack(np.ones(15))
    with pytest.raises(InvalidInput, match="take 1 words, got 2"):
        packing.unpack(words, 8, 1)
    with pytest.raises(ForeignCiphertext, match="must be empty"):
        packing.unpack(words, 13, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.001, -1.5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bad_values_are_refused_by_name(bad: float, dtype: type) -> None:
    values: NDArray[Any] = np.zeros(70_000, dtype)
    values[66_000] = bad
    with pytest.raises(InvalidInput, match=rf"{values[66_000]}, outside \[-1, 1\]"):
        Packing(FixedPoint(clip=1.0), 255).pack(values)


@pytest.mark.parametrize("weight", [0, -1, 101, 1.0, True, "3"])
def test_bad_weights_are_refused(weight: int) -> None:
    with pytest.raises(InvalidInput, match="weight must"):
        Packing(FixedPoint(clip=1.0), 255).pack(np.zeros(3), weight)


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.zeros(3, np.int64), np.zeros(2, complex)])
def test_only_flat_floats_are_packed(values: NDArray[Any]) -> None:
    with pytest.raises(InvalidInput, match="flat array of floats"):
        Packing(FixedPoint(clip=1.0), 255).pack(values)


@pytest.mark.parametrize(
    ("clip", "bits", "cap", "match"),
    [
        (0.0, 16, 1, "clip"),
        (float("nan"), 16, 1, "clip"),
        (float("inf"), 16, 1, "clip"),
        (1.0, 1, 1, "bits"),
        (1.0, 33, 1, "bits"),
        (1.0, 16, 0, "max_weight"),
        (1.0, 32, 1 << 31, "62 bits"),
    ],
)
def test_bad_fixed_points_are_refused(clip: float, bits: int, cap: int, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        FixedPoint(clip, bits, cap)


def test_slots_must_fit_the_plaintext() -> None:
    with pytest.raises(InvalidInput, match="do not fit"):
        Packing(FixedPoint(clip=1.0), 47)
    tight = Packing(FixedPoint(clip=1.0), 48)
    values = np.array([1.0, -1.0, 0.0])
    assert tight.unpack(tight.pack(values), 3, 1).total.tolist() == values.tolist()
