"""Paillier: other libraries with our packing, or their own, against our encryption."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # fate_utils: one core, like everybody

import numpy as np
from fate_utils.paillier import keygen
from heu import phe as heu
from lightphe import LightPHE
from phe import paillier as phe

from benchmarks.comparing.schemes import FIXED, Scheme, Vector, costs, factor, updates
from benchmarks.pages.tables import Row, Table, rate
from trilemma.crypto.packing import Packing
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

__all__ = ["compared", "our_schemes"]

ENTROPY = System()
NOTE = """\
16-bit precision, sums of up to 100 clients; CPU time, coding and packing included, tables that are
made once a key excluded. Error: the largest of a decrypted sum of two updates. *Ours, x*: how many
times faster ours is, with the public key. All but phe's first row pack many values into a
plaintext: fate_utils by itself (it takes no negative numbers, so it gets none), the others with
our packing, as they bring none for sums of many. heu, like ours, raises a fixed base to a short
random exponent, from a table; the others raise a fresh number to the n-th power. lightphe draws
keys and randomizers from Python's `random`, which is no generator for secrets."""


def compared(quick: bool) -> Iterable[Table]:
    rows: list[Row] = []
    for bits in (2048, 3072):
        rows += _rows(bits, *((2, 1) if quick else (8, 3)))
    yield Table(
        "Paillier: parameters a second",
        "bits | who | encrypt/s | add/s | decrypt/s | bytes/param | error | "
        "ours, x encrypt | ours, x add | ours, x decrypt",
        rows,
        NOTE,
    )


def _rows(bits: int, words: int, repeats: int) -> list[Row]:
    key = PrivateKey.generate(ENTROPY, bits=bits)
    packing = Packing(FIXED, bits - 3)  # phe keeps two bits of a plaintext for the sign
    few = updates(words * packing.slots - 2)
    p, q, _ = key.reveal()
    schemes = [
        *_of_phe(p, q, packing, few),
        _of_fate(bits, packing.slots - 1, few),
        _of_lightphe(p, q, packing, few[: 2 * packing.slots - 2]),
        _of_heu(bits, packing, few),
        *our_schemes(key, packing, updates(10 * words * packing.slots - 2)),
    ]
    found = costs(schemes, repeats)
    base = found[-2]  # ours with the public key
    rows = []
    for scheme, cost in zip(schemes, found, strict=True):
        ratios = [factor(their / our) for their, our in zip(cost, base, strict=True)]
        speeds = [rate(1, item) for item in cost]
        sizes = (f"{scheme.bytes:.2f}", f"{scheme.error():.0e}")
        rows.append((f"{bits}", scheme.name, *speeds, *sizes, *ratios))
    return rows


def _added(one: list[Any], two: list[Any]) -> list[Any]:
    return [a + b for a, b in zip(one, two, strict=True)]


def _of_phe(p: int, q: int, packing: Packing, values: Vector) -> list[Scheme]:
    public = phe.PaillierPublicKey(p * q)
    private = phe.PaillierPrivateKey(public, p, q)
    size = 2 * public.n.bit_length() / 8
    return [
        Scheme(
            "phe, value by value",
            values[:6],
            lambda x, _: [public.encrypt(float(item), precision=FIXED.step) for item in x],
            _added,
            lambda sums: np.array([private.decrypt(item) for item in sums]),
            size,
        ),
        _packed(
            "phe, packed as ours",
            packing,
            values,
            public.encrypt,
            _added,
            private.decrypt,
            size,
        ),
    ]


def _packed(
    name: str,
    packing: Packing,
    values: Vector,
    encrypt: Callable[[int], Any],
    add: Callable[[list[Any], list[Any]], list[Any]],
    decrypt: Callable[[Any], int],
    ciphertext: float,
) -> Scheme:
    """Our packing around a library that encrypts whole numbers."""
    length = len(values)
    return Scheme(
        name,
        values,
        lambda x, _: [encrypt(int(word)) for word in packing.pack(x)],
        add,
        lambda sums: packing.unpack([decrypt(item) for item in sums], length, 2).total,
        ciphertext * packing.words(length) / length,
    )


def _of_fate(bits: int, slots: int, values: Vector) -> Scheme:
    private, public, coder = keygen(bits)
    values = np.abs(values[: len(values) // slots * slots])
    return Scheme(
        "fate_utils, packed by itself",
        values,
        lambda x, _: public.encrypt_encoded(coder.pack_floats(x, 24, slots, 16), True),
        lambda one, two: one.add(public, two),
        lambda total: np.array(
            coder.unpack_floats(private.decrypt_to_encoded(total), 24, slots, 16, len(values))
        ),
        bits / 4 / slots,
    )


def _of_lightphe(p: int, q: int, packing: Packing, values: Vector) -> Scheme:
    """With our primes, as finding its own takes long."""
    n = int(p * q)
    public, private = {"g": 1 + n, "n": n}, {"phi": int((p - 1) * (q - 1))}
    keys = {"public_key": public, "private_key": private}
    system = LightPHE(algorithm_name="Paillier", keys=keys)
    name, size = "lightphe, packed as ours", n.bit_length() / 4
    return _packed(name, packing, values, system.encrypt, _added, system.decrypt, size)


def _of_heu(bits: int, packing: Packing, values: Vector) -> Scheme:
    kit = heu.setup(heu.SchemaType.ZPaillier, bits)
    encryptor, evaluator, decryptor = kit.encryptor(), kit.evaluator(), kit.decryptor()
    schema = kit.get_schema()
    return _packed(
        "heu ZPaillier, packed as ours",
        packing,
        values,
        lambda word: encryptor.encrypt(heu.Plaintext(schema, word)),
        lambda one, two: [evaluator.add(a, b) for a, b in zip(one, two, strict=True)],
        lambda each: int(decryptor.decrypt(each)),
        bits / 4,
    )


def our_schemes(key: PrivateKey, packing: Packing, values: Vector) -> list[Scheme]:
    """With the public key, and as the owner of the private one."""
    length = len(values)

    def scheme(name: str, whose: Any) -> Scheme:
        return Scheme(
            name,
            values,
            lambda x, _: whose.encrypt(packing.pack(x), ENTROPY),
            lambda one, two: key.public.add((one, two)),
            lambda total: packing.unpack(key.decrypt(total), length, total.summands).total,
            len(whose.encrypt(packing.pack(values), ENTROPY).to_bytes()) / length,
        )

    return [scheme("ours, public key", key.public), scheme("ours, key owner", key)]
