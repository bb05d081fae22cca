"""Speed and size of the protection mechanisms, in one run on one core.

    python benchmarks/mechanisms.py [--quick] [--output docs/benchmarks/mechanisms.md]

Seconds are CPU time of this process, medians of a few turns. Masks and shares, and what others
take, stand in docs/benchmarks/peers.md. A section is a function that returns tables; add yours to
SECTIONS.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import gmpy2
import numpy as np
import torch

from trilemma.crypto.packing import Packing
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.entropy import Seeded, System
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.sessions import ProtectedClient
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.secret_sharing.identity import Identity

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.comparing.schemes import FIXED, updates
from benchmarks.pages.stamp import machine, stamp
from benchmarks.pages.tables import Row, Table, once, rate, seconds

ENTROPY = System()
OUTPUT = Path("docs/benchmarks/mechanisms.md")
PAILLIER_SPEC = "paillier:bits=2048,max_weight=100"


def paillier(quick: bool) -> Iterable[Table]:
    """What a ciphertext and the tables of a key cost, and how that grows with an update."""
    yield Table(
        "Paillier: microseconds a ciphertext, and seconds for the tables of a key",
        "bits | encrypt, public | encrypt, owner | add | receive + send | decrypt | "
        "params a ciphertext | public table s | owner tables s",
        [paillier_at(bits, quick) for bits in (2048, 3072, 4096)],
        "16-bit precision, sums of up to 100 clients. Encrypting counts quantising, packing and a "
        "fresh randomizer for each ciphertext; decrypting counts unpacking.",
    )
    yield growth(quick)


def paillier_at(bits: int, quick: bool) -> Row:
    """The row of one key length."""
    words, repeats = (20, 1) if quick else (100, 5)
    key = PrivateKey.generate(ENTROPY, bits=bits)
    packing = Packing(FIXED, key.public.plaintext_bits)
    length = words * packing.slots - 2
    values = updates(length)
    public_table = once(lambda: key.public.randomizers(1, ENTROPY))
    owner_table = once(lambda: key.randomizers(1, ENTROPY))
    first, second = (key.encrypt(packing.pack(values), ENTROPY) for _ in range(2))
    message = first.to_bytes()
    by_public, by_owner, add, wire, decrypt = seconds(
        lambda: key.public.encrypt(packing.pack(values), ENTROPY),
        lambda: key.encrypt(packing.pack(values), ENTROPY),
        lambda: key.public.add((first, second)),
        lambda: key.public.receive(message).to_bytes(),
        lambda: packing.unpack(key.decrypt(first), length, 1),
        repeats=repeats,
    )
    micros = [f"{1e6 * cost / words:.0f}" for cost in (by_public, by_owner)]
    micros += [f"{1e6 * cost / words:.1f}" for cost in (add, wire)]
    micros += [f"{1e6 * decrypt / words:.0f}", f"{packing.slots}"]
    return (f"{bits}", *micros, f"{public_table:.2f}", f"{owner_table:.2f}")


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
    "transforms": transforms,
    "rounds": rounds,
}


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
        (
            f"`python benchmarks/mechanisms.py`, {stamp()}; "
            f"{machine('gmpy2', 'cryptography', 'numpy')}, {gmpy2.mp_version()}. Masks and "
            f"shares, and what others take: [peers](peers.md)."
        ),
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
