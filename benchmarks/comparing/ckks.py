"""CKKS of tenseal against our Paillier and our masks, at equal precision and 128-bit security."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import tenseal

from benchmarks.comparing.paillier import our_schemes
from benchmarks.comparing.schemes import FIXED, Scheme, Vector, costs, factor, updates
from benchmarks.pages.tables import Row, Table
from trilemma.crypto.masking import KeyPair, Ring, RoundContext, Seed, mask, pairwise_seeds
from trilemma.crypto.packing import Packing
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

__all__ = ["compared"]

ENTROPY = System()
CLIENTS = 10
BITS = 3072  # of Paillier's modulus, for 128-bit security
DEGREE, PRIMES, SCALE = 4096, [38, 38], 2.0**28
NOTE = f"""\
A sum of {CLIENTS} clients at 16 bits; 128-bit security: CKKS of degree {DEGREE} with {sum(PRIMES)}
bits of primes (109 would be the most; it is the cheapest whose error is not above ours), Paillier
of {BITS} bits, X25519 and AES-256 for masks. *x CKKS*: CPU time over that of CKKS. Masks count the
key agreements with nine others and, when the sum is read, taking off ten self-masks.

Where CKKS wins: against Paillier in every step, by far in decrypting, but not in size. What it
costs: four times the bytes of Paillier; sums are approximate, where ours are exact sums of rounded
values, so that no record count can be sent along and checked; one party holds the key and must not
see single messages, as with Paillier, where masks need no key holder at all; and who passes a
decrypted sum on tells something of the key, unless noise is added first. Masks are cheaper than
both, but need the clients of a round at the same time, and a further exchange where some drop
out."""


def compared(quick: bool) -> Iterable[Table]:
    few, many = (1_000, 10_000) if quick else (5_000, 100_000)
    key = PrivateKey.generate(ENTROPY, bits=BITS)
    paillier, _ = our_schemes(key, Packing(FIXED, key.public.plaintext_bits), updates(few))
    schemes = [
        _ckks(updates(many)),
        replace(paillier, name=f"our Paillier, {BITS} bits", clients=CLIENTS),
        _masks(updates(many)),
    ]
    found = costs(schemes, 1 if quick else 5)
    rows: list[Row] = []
    for scheme, cost in zip(schemes, found, strict=True):
        times = [f"{1e6 * item:.3g}" for item in cost]
        ratios = [factor(item / base) for item, base in zip(cost, found[0], strict=True)]
        sizes = (f"{scheme.bytes:.2f}", f"{scheme.error():.1e}")
        rows.append((scheme.name, *times, *sizes, *ratios))
    yield Table(
        "CKKS, Paillier and masks: microseconds a parameter",
        "who | encrypt | add | decrypt | bytes/param | error of the sum | "
        "x CKKS encrypt | x CKKS add | x CKKS decrypt",
        rows,
        NOTE,
    )


def _ckks(values: Vector) -> Scheme:
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=PRIMES, n_threads=1
    )
    context.global_scale = SCALE
    slots = DEGREE // 2

    def encrypt(x: Vector, _: int) -> list[Any]:
        starts = range(0, len(x), slots)
        return [tenseal.ckks_vector(context, x[start : start + slots]) for start in starts]

    return Scheme(
        f"CKKS (tenseal), degree {DEGREE}",
        values,
        encrypt,
        lambda one, two: [a + b for a, b in zip(one, two, strict=True)],
        lambda total: np.concatenate([item.decrypt() for item in total]),
        sum(len(item.serialize()) for item in encrypt(values, 0)) / len(values),
        CLIENTS,
    )


def _masks(values: Vector) -> Scheme:
    """Each client masks towards the nine others; who adds them up takes off the self-masks."""
    ring, context = Ring(FIXED), RoundContext("benchmark", 1)
    own = [KeyPair.generate(ENTROPY) for _ in range(CLIENTS)]
    itself = [Seed.generate(ENTROPY) for _ in range(CLIENTS)]

    def encrypt(x: Vector, client: int) -> Vector:
        peers = {k: item.public for k, item in enumerate(own) if k != client}
        add, subtract = pairwise_seeds(own[client], client, peers, context)
        return mask(ring.encode(x), add=[itself[client], *add], subtract=subtract)

    return Scheme(
        "our masks (secret sharing)",
        values,
        encrypt,
        np.add,
        lambda total: ring.decode(mask(total, subtract=itself), CLIENTS).total,
        ring.bits / 8,
        CLIENTS,
    )
