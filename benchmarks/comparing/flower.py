"""Flower's SecAgg+ against our masks and shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.ndarrays_arithmetic import parameters_addition, parameters_mod
from flwr.common.secure_aggregation.quantization import quantize
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

from benchmarks.comparing.schemes import FIXED, Vector, updates
from benchmarks.pages.tables import Row, Table, rate, seconds
from trilemma.crypto import shamir
from trilemma.crypto.masking import KeyPair, Ring, RoundContext, Seed, mask, pairwise_seeds
from trilemma.entropy import System

__all__ = ["compared"]

ENTROPY = System()


def compared(quick: bool) -> Iterable[Table]:
    repeats = 1 if quick else 3
    rows: list[Row] = []
    for length in (10_000,) if quick else (10_000, 1_000_000, 10_000_000):
        rows += _masks(length, repeats)
    yield Table(
        "Masks: parameters a second of one client among 10",
        "m | who | mask step/s | quantise + mask/s | bytes/param | "
        "ours, x mask step | ours, x quantise + mask",
        rows,
        "Mask step: ten keystreams added to a quantised update (nine pairs and the self-mask) in "
        "Z_2^32. The second figure adds quantising, and for ours also nine key agreements. "
        "Flower's streams come from a 32-bit seed, ours from AES-256.",
    )
    yield Table(
        "Shamir: milliseconds for a 32-byte secret",
        "t of n | who | split | combine | combine again, same survivors | "
        "ours, x split | ours, x combine",
        [*_shares(7, 10, repeats), *([] if quick else _shares(67, 100, repeats))],
    )


def _masks(length: int, repeats: int) -> list[Row]:
    values, ring = updates(length), Ring(FIXED)
    encoded = ring.encode(values)
    own, context = KeyPair.generate(ENTROPY), RoundContext("benchmark", 1)
    peers = {number: KeyPair.generate(ENTROPY).public for number in range(1, 10)}
    itself = Seed.generate(ENTROPY)
    pairs, _ = pairwise_seeds(own, 0, peers, context)
    seeds = [itself, *pairs]

    def whole() -> object:
        add, subtract = pairwise_seeds(own, 0, peers, context)
        return mask(ring.encode(values), add=[itself, *add], subtract=subtract)

    theirs = _flower_masks(values, [seed.reveal() for seed in seeds])
    spent = seconds(lambda: mask(encoded, add=seeds), whole, *theirs, repeats=repeats)
    name, rates = f"{length:,}", [rate(length, item) for item in spent]
    ratios = (f"{spent[2] / spent[0]:.1f}", f"{spent[3] / spent[1]:.1f}")
    return [
        (name, "Flower SecAgg+", *rates[2:], "8", *ratios),
        (name, "ours", *rates[:2], "4", "1", "1"),
    ]


def _flower_masks(values: Vector, seeds: list[bytes]) -> list[Callable[[], object]]:
    """(mask step, quantise + mask step) as Flower's client does them."""

    def step(quantised: list[Any]) -> object:
        shapes = [array.shape for array in quantised]
        for seed in seeds:
            quantised = parameters_addition(quantised, pseudo_rand_gen(seed, 1 << 32, shapes))
        return parameters_mod(quantised, 1 << 32)

    ready = quantize([values], 1.0, 1 << 16)
    return [lambda: step(ready), lambda: step(quantize([values], 1.0, 1 << 16))]


def _shares(threshold: int, count: int, repeats: int) -> list[Row]:
    secret = ENTROPY.bytes(32)
    used = shamir.split(secret, threshold, count, ENTROPY)[-threshold:]
    theirs = create_shares(secret, threshold, count)[-threshold:]

    def combine_cold() -> object:
        shamir._weights.cache_clear()
        return shamir.combine(used, threshold)

    spent = seconds(
        lambda: shamir.split(secret, threshold, count, ENTROPY),
        combine_cold,
        lambda: shamir.combine(used, threshold),
        lambda: create_shares(secret, threshold, count),
        lambda: combine_shares(theirs),
        repeats=repeats,
    )
    split, combine, again, their_split, their_combine = (f"{1e3 * item:.3g}" for item in spent)
    name, ratios = f"{threshold} of {count}", (spent[3] / spent[0], spent[4] / spent[1])
    return [
        (name, "Flower", their_split, their_combine, "-", *(f"{ratio:.0f}" for ratio in ratios)),
        (name, "ours", split, combine, again, "1", "1"),
    ]
