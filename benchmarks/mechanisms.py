"""Speed and size of the protection mechanisms beside today's alternatives, in one run on one core.

    python benchmarks/mechanisms.py [--quick] [--output docs/benchmarks/mechanisms.md]

Seconds are CPU time of this process; each figure is the best of a few repeats, ours and theirs
measured in turn. A section is a function that returns tables; add yours to SECTIONS.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # fate_utils: one core, like everybody

import gmpy2
import numpy as np
import torch
from phe import paillier as phe

from trilemma.crypto import shamir
from trilemma.crypto.masking import KeyPair, Ring, RoundContext, Seed, mask, pairwise_seeds
from trilemma.crypto.packing import FixedPoint, Packing
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.entropy import Seeded, System
from trilemma.protections.protection import Protection
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.rounds import run_round
from trilemma.protections.sessions import ProtectedClient
from trilemma.protections.specs import parse_protection
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transforms.top_k import TopK
from trilemma.protections.transports.secret_sharing.identity import Identity

ENTROPY = System()
FIXED = FixedPoint(clip=1.0, bits=16, max_weight=100)
OUTPUT = Path("docs/benchmarks/mechanisms.md")
PAILLIER_SPEC = "paillier:bits=2048,max_weight=100"

Row = tuple[str, ...]
Vector = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Table:
    title: str
    columns: str
    rows: list[Row]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", f"| {self.columns} |"]
        lines.append("|" + "---|" * len(self.columns.split(" | ")))
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])


def seconds(*actions: Callable[[], object], repeats: int = 3) -> list[float]:
    """Best CPU time of each action; the actions take turns, so that all meet the same weather."""
    best = [float("inf")] * len(actions)
    for _ in range(repeats):
        for index, action in enumerate(actions):
            start = time.process_time()
            action()
            best[index] = min(best[index], time.process_time() - start)
    return best


def rate(count: float, spent: float) -> str:
    value = count / spent
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def updates(length: int) -> Vector:
    return np.random.default_rng(length).uniform(-1, 1, length)


def paillier(quick: bool) -> Iterable[Table]:
    """Against phe value by value, and fate_utils packed where installed, at equal precision."""
    speeds: list[Row] = []
    costs: list[Row] = []
    for bits in (2048, 3072, 4096):
        speed, cost = paillier_at(bits, quick)
        speeds += speed
        costs.append(cost)
    yield Table(
        "Paillier: parameters a second",
        "bits | who | encrypt/s | add/s | decrypt/s | bytes/param | x encrypt | x add | x decrypt",
        speeds,
        "16-bit precision, sums of up to 100 clients; x: times phe in this run. Encrypting counts "
        "quantising, packing and a fresh randomizer for each ciphertext; decrypting counts "
        "unpacking. Only the table of a key, built once, is listed apart, below.",
    )
    yield Table(
        "Paillier: microseconds a ciphertext, and seconds for the tables of a key",
        "bits | encrypt, public | encrypt, owner | add | receive + send | decrypt | "
        "public table s | owner tables s",
        costs,
    )
    yield growth(quick)


def paillier_at(bits: int, quick: bool) -> tuple[list[Row], Row]:
    """The rows of one key length: params/s of everybody, and our cost of a ciphertext."""
    words, singles, repeats = (20, 6, 2) if quick else (100, 20, 5)
    key = PrivateKey.generate(ENTROPY, bits=bits)
    packing = Packing(FIXED, key.public.plaintext_bits)
    length = words * packing.slots - 2
    values = updates(length)
    p, q, _ = key.reveal()
    public = phe.PaillierPublicKey(p * q)
    private = phe.PaillierPrivateKey(public, p, q)
    few = [float(x) for x in values[:singles]]
    theirs = [public.encrypt(x, precision=FIXED.step) for x in few]

    (public_table,) = seconds(lambda: key.public.randomizers(1, ENTROPY), repeats=1)
    (owner_table,) = seconds(lambda: key.randomizers(1, ENTROPY), repeats=1)
    first, second = (key.encrypt(packing.pack(values), ENTROPY) for _ in range(2))
    message = first.to_bytes()
    spent = seconds(
        lambda: [public.encrypt(x, precision=FIXED.step) for x in few],
        lambda: [a + b for _ in range(20) for a, b in zip(theirs, theirs, strict=True)],
        lambda: [private.decrypt(x) for x in theirs],
        lambda: key.public.encrypt(packing.pack(values), ENTROPY),
        lambda: key.encrypt(packing.pack(values), ENTROPY),
        lambda: [key.public.add((first, second)) for _ in range(10)],
        lambda: key.public.receive(message).to_bytes(),
        lambda: packing.unpack(key.decrypt(first), length, 1),
        repeats=repeats,
    )
    base = (spent[0] / singles, spent[1] / (20 * singles), spent[2] / singles)
    by_public, by_owner, add, wire, decrypt = (
        cost / count for cost, count in zip(spent[3:], (1, 1, 10, 1, 1), strict=True)
    )

    def row(name: str, costs: tuple[float, ...], size: float) -> Row:
        ratios = [f"{b / c:,.0f}" for b, c in zip(base, costs, strict=True)]
        return (str(bits), name, *(rate(1, c) for c in costs), f"{size:.2f}", *ratios)

    size = len(message) / length
    rows = [row("phe", base, key.public.ciphertext_bytes)]
    if importlib.util.find_spec("fate_utils"):
        slots = packing.slots - 1  # its plaintexts keep a margin
        costs = fate(bits, slots, words // 5, repeats)
        rows.append(row("fate_utils, packed", costs, key.public.ciphertext_bytes / slots))
    shared = (add / length, decrypt / length)
    rows.append(row("ours, public key", (by_public / length, *shared), size))
    rows.append(row("ours, key owner", (by_owner / length, *shared), size))
    micros = [f"{1e6 * c / words:.0f}" for c in (by_public, by_owner)]
    micros += [f"{1e6 * c / words:.1f}" for c in (add, wire)]
    micros.append(f"{1e6 * decrypt / words:.0f}")
    return rows, (str(bits), *micros, f"{public_table:.2f}", f"{owner_table:.2f}")


def fate(bits: int, slots: int, words: int, repeats: int) -> tuple[float, ...]:
    """Seconds a parameter of fate_utils; it packs non-negative numbers only, so it gets those."""
    from fate_utils.paillier import keygen

    private, public, coder = keygen(bits)
    values = np.abs(updates(words * slots))
    sent = public.encrypt_encoded(coder.pack_floats(values, 24, slots, 16), True)
    spent = seconds(
        lambda: public.encrypt_encoded(coder.pack_floats(values, 24, slots, 16), True),
        lambda: [sent.add(public, sent) for _ in range(10)],
        lambda: coder.unpack_floats(private.decrypt_to_encoded(sent), 24, slots, 16, len(values)),
        repeats=repeats,
    )
    return tuple(s / (n * len(values)) for s, n in zip(spent, (1, 10, 1), strict=True))


def growth(quick: bool) -> Table:
    """A new public key each time: what an update of m parameters costs, tables and all."""
    rows: list[Row] = []
    for length in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000):
        key = PrivateKey.generate(ENTROPY, bits=2048)
        public = PublicKey(key.public.n, key.public.h)
        packing = Packing(FIXED, public.plaintext_bits)
        values = updates(length)
        start = time.process_time()
        encrypted = public.encrypt(packing.pack(values), ENTROPY)
        spent = time.process_time() - start
        size = len(encrypted.to_bytes()) / length
        rows.append((f"{length:,}", f"{spent:.2f}", rate(length, spent), f"{size:.3f}"))
    return Table(
        "Paillier 2048: encrypting a first update of m parameters, table included",
        "m | seconds | params/s | bytes/param",
        rows,
    )


def masking(quick: bool) -> Iterable[Table]:
    """The mask step of one of 10 clients against the same step of Flower's SecAgg+."""
    rows: list[Row] = []
    for length in (10_000, 1_000_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000):
        rows += masking_at(length)
    yield Table(
        "Masking: parameters a second of one client among 10",
        "m | who | mask step/s | quantise + mask/s | bytes/param | x mask step | "
        "x quantise + mask",
        rows,
        "Mask step: ten keystreams added to a quantised update (nine pairs and the self-mask) in "
        "Z_2^32. The second figure adds quantising, and for ours also nine key agreements. "
        "Flower's streams come from a 32-bit seed, ours from AES-256.",
    )


def masking_at(length: int) -> list[Row]:
    """The rows of one update length."""
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

    actions = [lambda: mask(encoded, add=seeds), whole]
    if importlib.util.find_spec("flwr"):
        actions += flower_masks(values, [seed.reveal() for seed in seeds])
    step, full, *theirs = seconds(*actions, repeats=3 if length > 10**6 else 9)
    name, ours = f"{length:,}", (rate(length, step), rate(length, full), "4")
    if not theirs:
        return [(name, "ours", *ours, "-", "-")]
    rates = (rate(length, theirs[0]), rate(length, theirs[1]), "8")
    ratios = (f"{theirs[0] / step:.1f}", f"{theirs[1] / full:.1f}")
    return [(name, "Flower SecAgg+", *rates, "1", "1"), (name, "ours", *ours, *ratios)]


def flower_masks(values: Vector, seeds: list[bytes]) -> list[Callable[[], object]]:
    """(mask step, quantise + mask step) as Flower's client does them."""
    from flwr.common.secure_aggregation.ndarrays_arithmetic import (
        parameters_addition,
        parameters_mod,
    )
    from flwr.common.secure_aggregation.quantization import quantize
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    def step(quantised: list[Any]) -> object:
        shapes = [array.shape for array in quantised]
        for seed in seeds:
            quantised = parameters_addition(quantised, pseudo_rand_gen(seed, 1 << 32, shapes))
        return parameters_mod(quantised, 1 << 32)

    ready = quantize([values], 1.0, 1 << 16)
    return [lambda: step(ready), lambda: step(quantize([values], 1.0, 1 << 16))]


def sharing(quick: bool) -> Iterable[Table]:
    """Shamir's t-of-n of a 32-byte seed against Flower's."""
    yield Table(
        "Shamir: milliseconds for a 32-byte secret",
        "t of n | who | split | combine | combine again, same survivors | x split | x combine",
        [*sharing_at(7, 10, quick), *sharing_at(67, 100, quick)],
    )


def sharing_at(threshold: int, count: int, quick: bool) -> list[Row]:
    """The rows of one threshold."""
    secret = ENTROPY.bytes(32)
    used = shamir.split(secret, threshold, count, ENTROPY)[-threshold:]

    def combine_cold() -> object:
        shamir._weights.cache_clear()
        return shamir.combine(used, threshold)

    actions: list[Callable[[], object]] = [
        lambda: shamir.split(secret, threshold, count, ENTROPY),
        combine_cold,
        lambda: shamir.combine(used, threshold),
    ]
    if importlib.util.find_spec("flwr"):
        from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares

        theirs = create_shares(secret, threshold, count)[-threshold:]
        actions += [
            lambda: create_shares(secret, threshold, count),
            lambda: combine_shares(theirs),
        ]
    split, combine, again, *flower = seconds(*actions, repeats=2 if quick else 5)
    name = f"{threshold} of {count}"
    ours = (f"{1e3 * split:.2f}", f"{1e3 * combine:.2f}", f"{1e3 * again:.3f}")
    if not flower:
        return [(name, "ours", *ours, "-", "-")]
    ratios = (f"{flower[0] / split:.0f}", f"{flower[1] / combine:.0f}")
    theirs_ms = (f"{1e3 * flower[0]:.1f}", f"{1e3 * flower[1]:.1f}")
    return [(name, "Flower", *theirs_ms, "-", "1", "1"), (name, "ours", *ours, *ratios)]


def transforms(quick: bool) -> Iterable[Table]:
    """Noise and compression against a copy of the same bytes, the least that memory allows."""
    rows: list[Row] = []
    for length in (10_000, 1_000_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000):
        rows += transforms_at(length)
    yield Table(
        "Noise and compression: parameters a second of one client",
        "m | what | params/s | bytes/param | times a copy",
        rows,
        "32-bit updates. times a copy: CPU time over that of a numpy copy of the update in this "
        "run. Noise: seeded for measurement, or from the CSPRNG on a grid, as federations use it. "
        "Compression draws its places anew each time and makes the message; bytes are the "
        "message's, header included.",
    )


def transforms_at(length: int) -> list[Row]:
    """The rows of one update length."""
    values = torch.from_numpy(updates(length).astype(np.float32))
    array, numbers = values.numpy(), itertools.count()
    protections = {
        "noise, seeded": Protection((Randomization(1e-4),)),
        "noise, seeded, clipped": Protection((Randomization(1e-4, clip=1.0),)),
        "noise, CSPRNG": Protection((Randomization(1e-4),)),
        **{f"keep {keep:g}": Protection((Compression(keep),)) for keep in (0.01, 0.1, 0.5, 0.99)},
        "top-k 0.01": Protection((TopK(0.01),)),
    }

    def send(protection: Protection, entropy: Seeded | System) -> bytes:
        info = RoundInfo.new([0], Seeded(1), number=next(numbers))
        if "compress" not in protection.describe() and "top-k" not in protection.describe():
            protection.apply(values, 0, info, entropy)
            return b""
        session = ProtectedClient.start(protection, 0, info, length, entropy=entropy)
        reply = session.step(b"", values)
        assert isinstance(reply, bytes)
        return reply

    actions: list[Callable[[], object]] = [array.copy]
    sizes = ["4"]
    for name, protection in protections.items():
        entropy = ENTROPY if "CSPRNG" in name else Seeded(2)
        actions.append(partial(send, protection, entropy))
        sizes.append(f"{len(send(protection, entropy)) / length or 4:.3g}")
    copy, *spent = seconds(*actions, repeats=3 if length > 10**6 else 9)
    names = ["numpy copy", *protections]
    return [
        (f"{length:,}", name, rate(length, cost), size, f"{cost / copy:.0f}")
        for name, cost, size in zip(names, [copy, *spent], sizes, strict=True)
    ]


def rounds(quick: bool) -> Iterable[Table]:
    """A whole round of 10 clients in one process, every session's steps included."""
    length = 10_000 if quick else 1_000_000
    rows: list[Row] = []
    key = PrivateKey.generate(ENTROPY, bits=2048)
    key.randomizers(1, ENTROPY), key.public.randomizers(1, ENTROPY)  # tables, built once a key
    batch = torch.from_numpy(np.stack([updates(length)] * 10).astype(np.float32))
    cases: list[tuple[str, str, object]] = [
        ("none", "", None),
        ("compression:keep=0.1", "", None),
        ("secret-sharing", "", None),
        ("secret-sharing", ", identities pinned", Identity.pinned(range(10), ENTROPY)),
        (PAILLIER_SPEC, "", key),
    ]
    for text, detail, secret in cases:
        protection = parse_protection(text)
        info = RoundInfo.new(range(10), ENTROPY)
        start = time.process_time()
        transcript = run_round(protection, batch, None, info, secret=secret).transcript
        spent = time.process_time() - start
        up, down = (bits / 80 / length for bits in (transcript.bits_up, transcript.bits_down))
        rows.append((text + detail, f"{spent:.3f}", f"{up:.2f}", f"{down:.2f}"))
    yield Table(
        f"A round of 10 clients with {length:,} parameters each, all in one process",
        "protection | CPU seconds, all parties | bytes/param up, a client | down, a client",
        rows,
    )


SECTIONS: dict[str, Callable[[bool], Iterable[Table]]] = {
    "paillier": paillier,
    "masking": masking,
    "sharing": sharing,
    "transforms": transforms,
    "rounds": rounds,
}


def machine() -> str:
    """Processor and versions, so that the figures can be judged."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    installed = [
        f"{name} {version(name)}"
        for name in ("gmpy2", "cryptography", "numpy", "torch", "phe", "fate_utils", "flwr")
        if importlib.util.find_spec(name)
    ]
    python = f"Python {platform.python_version()}"
    return f"{model}, one core; {', '.join([gmpy2.mp_version(), python, *installed])}."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats, no file")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--only", choices=SECTIONS, help="print one section, write no file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text = [
        "# Mechanisms: speed and size",
        "",
        "Made by `python benchmarks/mechanisms.py`. " + machine(),
        "",
    ]
    chosen = [SECTIONS[options.only]] if options.only else SECTIONS.values()
    for section in chosen:
        for table in section(options.quick):
            print(table.markdown(), flush=True)
            text.append(table.markdown())
    if not options.quick and not options.only:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text("\n".join(text))


if __name__ == "__main__":
    main()
