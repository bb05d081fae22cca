from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trilemma.crypto import masking
from trilemma.crypto.masking import (
    KeyPair,
    Ring,
    RoundContext,
    Seed,
    check_threshold,
    mask,
    pairwise_seeds,
    seal,
    unseal,
)
from trilemma.crypto.packing import FixedPoint
from trilemma.crypto.shamir import combine, split
from trilemma.entropy import Seeded, System
from trilemma.errors import ForeignCiphertext, InvalidInput

ROUND = RoundContext("run", 1)
DTYPES = (np.uint32, np.uint64)


def aes_ecb_counter(key: bytes, count: int) -> bytes:
    """Counter mode from its definition: the encryption of 2, 3, 4, ..."""
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    blocks = b"".join(i.to_bytes(16, "big") for i in range(2, 2 + -(-count // 16)))
    return cipher.update(blocks)[:count]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 3, 16_384, 40_001])
@pytest.mark.parametrize("mode", [modes.CTR(bytes(15) + b"\2"), modes.GCM(bytes(12))])
def test_masks_are_the_counter_mode_keystream(
    dtype: Any, length: int, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "_fastest_mode", lambda: mode)
    a, b = Seed.generate(System()), Seed.generate(System())
    values = np.random.default_rng(1).integers(0, 1 << 32, length).astype(dtype)
    size = np.dtype(dtype).itemsize
    modulus = 1 << (8 * size)

    def stream(seed: Seed) -> list[int]:
        data = aes_ecb_counter(seed.reveal(), size * length)
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    expected = [
        (v + x - y) % modulus
        for v, x, y in zip(values.tolist(), stream(a), stream(b), strict=True)
    ]
    before = values.copy()
    masked = mask(values, add=[a], subtract=[b])
    assert masked.tolist() == expected
    assert masked.dtype == dtype
    assert (values == before).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_pairwise_masks_cancel_in_the_sum(dtype: Any) -> None:
    numbers = [7, 3, 2**63, 0, 12]
    pairs = {u: KeyPair.generate(System()) for u in numbers}
    values = {u: np.arange(5000, dtype=dtype) * np.asarray(u % 1000 + 1, dtype) for u in numbers}
    total, plain = np.zeros(5000, dtype), np.zeros(5000, dtype)
    for u in numbers:
        peers = {v: pairs[v].public for v in numbers if v != u}
        add, subtract = pairwise_seeds(pairs[u], u, peers, ROUND)
        assert (len(add), len(subtract)) == (
            sum(v > u for v in numbers),
            sum(v < u for v in numbers),
        )
        masked = mask(values[u], add=add, subtract=subtract)
        assert (masked == values[u]).mean() < 0.01
        total += masked
        plain += values[u]
    assert (total == plain).all()


def test_a_round_with_a_dropout_from_the_primitives_alone() -> None:
    """Client 4 drops out after sharing; its key and the others' self-masks come from shares."""
    clients, threshold, entropy = range(5), 3, System()
    ring = Ring(FixedPoint(clip=1.0, max_weight=50))
    updates = np.random.default_rng(2).uniform(-1, 1, (5, 300))
    pairs = [KeyPair.generate(entropy) for _ in clients]
    selves = [Seed.generate(entropy) for _ in clients]
    key_shares = [split(pair.reveal(), threshold, 5, entropy) for pair in pairs]
    self_shares = [split(seed.reveal(), threshold, 5, entropy) for seed in selves]
    total = np.zeros(301, np.uint32)
    survivors = clients[:4]
    for u in survivors:
        peers = {v: pairs[v].public for v in clients if v != u}
        add, subtract = pairwise_seeds(pairs[u], u, peers, ROUND)
        total += mask(ring.encode(updates[u], u + 1), add=[selves[u], *add], subtract=subtract)
    with pytest.raises(ForeignCiphertext):
        ring.decode(total, 4)
    found = [Seed(combine([self_shares[u][v] for v in (0, 2, 3)], threshold)) for u in survivors]
    dropped = KeyPair(combine([key_shares[4][v] for v in (1, 2, 3)], threshold))
    add, subtract = pairwise_seeds(dropped, 4, {v: pairs[v].public for v in survivors}, ROUND)
    total = mask(total, add=add, subtract=[*found, *subtract])
    result = ring.decode(total, 4)
    expected = sum((u + 1) * np.rint(updates[u] * 32767).astype(int) for u in survivors)
    assert result.weight == 10
    assert (result.units == expected).all()


@pytest.mark.parametrize("fill", [0, 1, 2**32 - 1])
def test_a_masked_update_is_uniform_whatever_the_update(fill: int) -> None:
    """Chi-square over each byte of 10^6 masked words; a false alarm once in 10^6 runs."""
    values = np.full(1_000_000, fill, np.uint32)
    add, subtract = pairwise_seeds(
        KeyPair.generate(System()),
        1,
        {0: KeyPair.generate(System()).public, 2: KeyPair.generate(System()).public},
        ROUND,
    )
    octets = mask(values, add=[Seed.generate(System()), *add], subtract=subtract).view(np.uint8)
    for position in range(4):
        counts = np.bincount(octets[position::4], minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-7
    assert stats.chisquare(np.bincount(values.view(np.uint8), minlength=256)).pvalue < 1e-7


def test_no_two_rounds_runs_pairs_or_purposes_share_a_key() -> None:
    a, b = KeyPair.generate(System()), KeyPair.generate(System())
    keys = [
        a.derive(b.public, context.info(purpose, u, v))
        for context in (ROUND, RoundContext("run", 2), RoundContext("other", 1))
        for purpose in ("mask", "message")
        for u, v in ((0, 1), (1, 0), (0, 2))
    ]
    assert len(set(keys)) == len(keys)
    # names that only differ in where one part ends
    assert RoundContext("ab", 1).info("c", 1) != RoundContext("b", 1).info("ca", 1)


def test_two_rounds_of_the_same_update_share_no_mask() -> None:
    a, b = KeyPair.generate(System()), KeyPair.generate(System())
    values = np.zeros(100_000, np.uint32)
    masked = [
        mask(values, add=pairwise_seeds(a, 0, {1: b.public}, RoundContext("run", n))[0])
        for n in (1, 2)
    ]
    assert (masked[0] == masked[1]).sum() <= 2
    assert (
        len(np.intersect1d(masked[0], masked[1])) < 20
    )  # 2.3 of 10^10 / 2^32 are expected by chance


def test_both_ends_derive_the_same_key_and_a_third_another() -> None:
    a, b, c = (KeyPair.generate(System()) for _ in range(3))
    assert a.derive(b.public, b"x") == b.derive(a.public, b"x")
    assert a.derive(b.public, b"x") != c.derive(b.public, b"x")
    assert KeyPair(a.reveal()).public == a.public


@pytest.mark.parametrize("public", [bytes(32), b"short", bytes([1]) + bytes(31)])
def test_unusable_public_keys_are_refused(public: bytes) -> None:
    with pytest.raises(InvalidInput, match="X25519"):
        KeyPair.generate(System()).derive(public, b"")


def test_sealed_messages_reach_their_receiver_alone() -> None:
    a, b, c = (KeyPair.generate(System()) for _ in range(3))
    sealed = seal(
        a, b.public, b"two shares", context=ROUND, sender=0, receiver=1, entropy=System()
    )
    assert unseal(b, a.public, sealed, context=ROUND, sender=0, receiver=1) == b"two shares"
    assert b"two shares" not in sealed
    other = RoundContext("run", 2)
    flipped = sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:]
    for own, peer, message, context, sender, receiver in (
        (c, a.public, sealed, ROUND, 0, 1),  # a third client
        (b, c.public, sealed, ROUND, 0, 1),  # a sender that did not send it
        (b, a.public, sealed, other, 0, 1),  # replayed in another round
        (b, a.public, sealed, ROUND, 2, 1),  # under another sender's number
        (a, b.public, sealed, ROUND, 1, 0),  # reflected to its sender
        (b, a.public, flipped, ROUND, 0, 1),
        (b, a.public, sealed[:-1], ROUND, 0, 1),
        (b, a.public, b"", ROUND, 0, 1),
    ):
        with pytest.raises(ForeignCiphertext, match="do not use it"):
            unseal(own, peer, message, context=context, sender=sender, receiver=receiver)


@pytest.mark.parametrize(
    ("threshold", "clients"), [(2, 4), (1, 2), (0, 0), (5, 4), (-1, 3), (2, 5)]
)
def test_thresholds_of_half_or_beyond_all_are_refused(threshold: int, clients: int) -> None:
    with pytest.raises(InvalidInput, match=f"got {threshold}"):
        check_threshold(threshold, clients)


@pytest.mark.parametrize(("threshold", "clients"), [(1, 1), (2, 2), (2, 3), (3, 5), (67, 100)])
def test_thresholds_above_half_are_accepted(threshold: int, clients: int) -> None:
    check_threshold(threshold, clients)


@pytest.mark.parametrize("bits", [32, 64])
def test_ring_sums_equal_integer_arithmetic(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for _ in range(300):
        clients = int(rng.integers(1, 30))
        fixed = FixedPoint(clip=0.5, bits=16, max_weight=60_000)
        ring = Ring(fixed, bits)
        units = rng.integers(-fixed.levels, fixed.levels + 1, (clients, 20))
        units[:, :2] = fixed.levels, -fixed.levels
        weights = rng.integers(1, 60_000 // clients + 1, clients)
        total = np.zeros(21, ring.dtype)
        for u, w in zip(units, weights, strict=True):
            total += ring.encode(u * fixed.step, w)
        result = ring.decode(total, clients)
        assert result.units.tolist() == (weights @ units).tolist()
        assert result.weight == weights.sum()


def test_four_bytes_a_parameter() -> None:
    assert Ring(FixedPoint(clip=1.0)).encode(np.zeros(1000)).nbytes == 4 * 1001


def test_sums_that_could_wrap_are_refused() -> None:
    with pytest.raises(InvalidInput, match="wrap round"):
        Ring(FixedPoint(clip=1.0, bits=16, max_weight=1 << 17))
    ring = Ring(FixedPoint(clip=1.0, bits=16, max_weight=100))
    half = ring.encode(np.ones(3), 60)
    with pytest.raises(ForeignCiphertext, match="add up to 120"):
        ring.decode(half + half, 2)
    with pytest.raises(InvalidInput, match="sum of 101 updates"):
        ring.decode(half, 101)
    with pytest.raises(InvalidInput, match="32 or 64"):
        Ring(FixedPoint(clip=1.0), 16)
    with pytest.raises(InvalidInput, match="uint32"):
        ring.decode(half.astype(np.int64), 1)


@pytest.mark.parametrize(
    ("bits", "cap"), [(32, 99), (32, 65_535), (32, 65_536), (32, 65_537), (32, 1 << 17), (64, 70)]
)
def test_max_summands_is_the_last_that_leaves_the_weight_exact(bits: int, cap: int) -> None:
    ring = Ring(FixedPoint(clip=1.0, bits=2, max_weight=cap), bits)
    most = ring.max_summands
    assert most <= cap
    assert most * cap < 1 << bits
    assert most == cap or (most + 1) * cap >= 1 << bits
    total = most * ring.encode(np.zeros(1))
    assert ring.decode(total, most).weight == most
    with pytest.raises(InvalidInput, match=f"sum of {most + 1} updates"):
        ring.decode(total, most + 1)


@pytest.mark.parametrize("bits", [32.0, "32", True, None, pytest.param(10**5000, id="long")])
def test_rings_take_whole_numbers_of_bits(bits: Any) -> None:
    with pytest.raises(InvalidInput, match="bits of the ring"):
        Ring(FixedPoint(clip=1.0), bits)


@given(sealed=st.binary(max_size=60), sender=st.integers(-1, 3), peer=st.binary(max_size=40))
def test_any_sealed_bytes_are_refused(sealed: bytes, sender: int, peer: bytes) -> None:
    own = KeyPair(bytes(range(32)))
    for public in (peer, own.public):
        with pytest.raises(InvalidInput):
            unseal(own, public, sealed, context=ROUND, sender=sender, receiver=1)


@given(message=st.binary(max_size=80), run=st.text(), number=st.integers())
def test_any_message_comes_back_from_its_seal(message: bytes, run: str, number: int) -> None:
    a, b = KeyPair(bytes(32)), KeyPair(bytes(range(32)))
    try:
        context = RoundContext(run, number)
    except InvalidInput:
        assert not run or not 0 <= number < 1 << 64
        return
    sealed = seal(a, b.public, message, context=context, sender=0, receiver=1, entropy=System())
    assert unseal(b, a.public, sealed, context=context, sender=0, receiver=1) == message


@given(ring=st.lists(st.integers(0, (1 << 32) - 1), max_size=6), summands=st.integers(-1, 12))
def test_any_ring_vector_is_a_sum_within_bounds_or_refused(ring: list[int], summands: int) -> None:
    layout = Ring(FixedPoint(clip=1.0, bits=2, max_weight=10))
    for vector in (ring, [summands, *([1] * len(ring))]):
        try:
            result = layout.decode(np.array(vector).astype(np.uint32), summands)
        except InvalidInput:
            continue
        assert summands <= result.weight <= 10
        assert np.abs(result.units).max(initial=0) <= result.weight


def test_bad_arguments_are_refused() -> None:
    for values in (np.zeros(3), np.zeros(3, np.int32), np.zeros((2, 2), np.uint32)):
        with pytest.raises(InvalidInput, match="uint32 or uint64"):
            mask(values)
    seeded: System = Seeded(1)  # type: ignore[assignment]
    for attempt in (
        lambda: Seed.generate(seeded),
        lambda: KeyPair.generate(seeded),
        lambda: Seed(bytes(31)),
        lambda: KeyPair(bytes(33)),
        lambda: RoundContext("", 1),
        lambda: RoundContext("run", -1),
        lambda: ROUND.info("mask", -1),
        lambda: pairwise_seeds(KeyPair(bytes(32)), 1, {1: bytes(32)}, ROUND),
    ):
        with pytest.raises(InvalidInput):
            attempt()


def test_pair_seeds_are_bound_to_the_clients_numbers() -> None:
    own, peer = KeyPair.generate(System()), KeyPair.generate(System())
    seeds = [
        pairwise_seeds(own, me, {other: peer.public}, ROUND)[0][0].reveal()
        for me, other in ((0, 1), (0, 2), (1, 2))
    ]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("clients", range(1, 30))
def test_pinned_thresholds_exceed_two_thirds(clients: int) -> None:
    for threshold in range(clients + 2):
        if 2 * clients < 3 * threshold <= 3 * clients:
            check_threshold(threshold, clients, pinned=True)
            continue
        with pytest.raises(InvalidInput, match=r"two thirds of the \d+ clients, as their ident"):
            check_threshold(threshold, clients, pinned=True)
