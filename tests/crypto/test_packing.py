from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.crypto.packing import FixedPoint, Packing
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import ForeignCiphertext, InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def layout_by_hand(units: list[int], weight: int, packing: Packing) -> list[int]:
    """The words from their description: weight, raised units, and an empty slot atop the first."""
    size, slots, levels = 8 * packing.slot_bytes, packing.slots, packing.fixed.levels
    fields = [weight, *(weight * (u + levels) for u in units)]
    if len(fields) >= slots:
        fields.insert(slots - 1, 0)
    return [
        sum(field << (size * i) for i, field in enumerate(fields[start : start + slots]))
        for start in range(0, len(fields), slots)
    ]


@pytest.mark.parametrize("length", [0, 1, 8, 9, 10, 19, 20, 21, 22, 45])
def test_words_are_laid_out_as_described(length: int) -> None:
    packing = Packing(FixedPoint(clip=1.0, bits=12, max_weight=4096), plaintext_bits=271)
    assert (packing.slots, packing.slot_bytes) == (11, 3)
    units = random_units(random.Random(length), packing.fixed, length)
    words = packing.pack(np.array(units) * packing.fixed.step, 7)
    assert words == layout_by_hand(units, 7, packing)
    assert packing.words(length) == max(len(words), 1 + (length + 1) // 11)
    assert words[0] >> 240 == 0


def test_no_carry_leaves_the_first_word() -> None:
    """2048 clients of the greatest weight: the top value slot outgrows n, unless one is empty."""
    key = PrivateKey.generate(System(), bits=272, insecure=True)
    packing = Packing(FixedPoint(clip=1.0, bits=12, max_weight=4096), key.public.plaintext_bits)
    total = key.encrypt(packing.pack(np.ones(30), 4096), System())
    for _ in range(11):
        total = key.public.add([total, total])
    assert total.summands == 2048 <= packing.max_summands
    assert key.public.n < 2048 * 4096 * 4094 << 240
    with pytest.raises(ForeignCiphertext, match=f"of 2048 clients add up to {2048 * 4096},"):
        packing.unpack(key.decrypt(total), 30, total.summands)


def test_a_filled_top_slot_is_noticed() -> None:
    packing = Packing(FixedPoint(clip=1.0), 255)
    for place, length in ((9, 15), (9, 8), (8, 7)):  # the top slot, and the first beyond the end
        words = packing.pack(np.zeros(length))
        words[0] += 1 << (24 * place)
        with pytest.raises(ForeignCiphertext, match="must be empty"):
            packing.unpack(words, length, 1)


@pytest.mark.parametrize("cap", range(1, 128))
def test_max_summands_is_the_last_that_leaves_the_weight_exact(cap: int) -> None:
    """By trial: S weights of at most `cap` in a slot of one byte, and at most `cap` of them."""
    packing = Packing(FixedPoint(clip=1.0, bits=2, max_weight=cap), 255)
    assert packing.slot_bytes == 1
    most = max(s for s in range(1, cap + 1) if s * cap <= 255)
    assert packing.max_summands == most
    words = packing.pack(np.zeros(2))
    assert packing.unpack([most * w for w in words], 2, most).weight == most
    with pytest.raises(InvalidInput, match=f"sum of {most + 1} updates"):
        packing.unpack([(most + 1) * w for w in words], 2, most + 1)


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
        (5e-324, 16, 1, "clip"),
        (1e308, 16, 1, "clip"),
        pytest.param(10**5000, 16, 1, "clip .* got inf", id="long clip"),
        (True, 16, 1, "clip .* a number"),
        ("1", 16, 1, "clip .* a number"),
        (1.0, 16.0, 1, "bits .* whole number"),
        (1.0, True, 1, "bits .* whole number"),
        pytest.param(1.0, 10**5000, 1, "at most 64 bits", id="long bits"),
        (1.0, 16, 1.5, "max_weight must be a whole number"),
        (1.0, 16, "1", "max_weight must be a whole number"),
    ],
)
def test_bad_fixed_points_are_refused(clip: Any, bits: Any, cap: Any, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        FixedPoint(clip, bits, cap)


def test_slots_must_fit_the_plaintext() -> None:
    with pytest.raises(InvalidInput, match="do not fit"):
        Packing(FixedPoint(clip=1.0), 47)
    tight = Packing(FixedPoint(clip=1.0), 48)
    values = np.array([1.0, -1.0, 0.0])
    assert tight.unpack(tight.pack(values), 3, 1).total.tolist() == values.tolist()


def test_numpys_numbers_become_plain() -> None:
    fixed = FixedPoint(np.float32(0.5), np.int8(16), np.uint16(100))  # type: ignore[arg-type]
    assert fixed == FixedPoint(0.5, 16, 100)
    assert repr(fixed) == "FixedPoint(clip=0.5, bits=16, max_weight=100)"


SCALARS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text())


@given(
    clip=st.one_of(SCALARS, st.floats(1e-100, 1e100)),
    bits=st.one_of(SCALARS, st.integers(2, 32)),
    cap=st.one_of(SCALARS, st.integers(1, 1 << 32)),
    plaintext_bits=st.integers(-10, 4096),
)
def test_any_packing_carries_its_ends_or_is_refused(
    clip: Any, bits: Any, cap: Any, plaintext_bits: int
) -> None:
    try:
        packing = Packing(FixedPoint(clip, bits, cap), plaintext_bits)
    except InvalidInput:
        return
    values = np.array([clip, -clip, 0.0])
    result = packing.unpack(packing.pack(values, cap), 3, 1)
    levels = 2 ** (bits - 1) - 1
    assert result.units.tolist() == [cap * levels, -cap * levels, 0]
    assert np.allclose(result.mean, values, rtol=1e-12, atol=0)


@given(words=st.lists(st.integers(-1, 1 << 300), max_size=3), length=st.integers(0, 20))
def test_any_plaintexts_are_a_sum_within_bounds_or_refused(words: list[int], length: int) -> None:
    packing = Packing(FixedPoint(clip=1.0, bits=2, max_weight=100), 128)
    try:
        result = packing.unpack(words, length, 2)
    except InvalidInput:
        return
    assert 2 <= result.weight <= 100
    assert np.abs(result.units).max(initial=0) <= result.weight
