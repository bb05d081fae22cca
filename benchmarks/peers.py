"""Ours against well-tuned peers, in one run on one core, at equal quality.

    .venv-peers/bin/python benchmarks/peers.py [--quick] [--only dlg]

`make bench` makes that environment from benchmarks/peers.txt. Seconds are CPU time of this
process: medians of several turns, after one that is not counted, in which all take part.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the parts of this page, and what all pages share

from benchmarks.comparing import ckks, dlg, flower, grids, paillier, records  # noqa: E402
from benchmarks.pages.stamp import machine, stamp  # noqa: E402
from benchmarks.pages.tables import Table  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks" / "peers.md"
PACKAGES = (
    *("numpy", "gmpy2", "cryptography", "dp-accounting", "opacus", "tenseal", "phe"),
    *("fate_utils", "lightphe", "sf_heu", "flwr"),
)
PARTS: dict[str, Callable[[bool], Iterable[Table]]] = {
    "dlg": dlg.compared,
    "paillier": paillier.compared,
    "ckks": ckks.compared,
    "flower": flower.compared,
    "grids": grids.compared,
    "records": records.compared,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats, no file")
    parser.add_argument("--only", choices=PARTS, help="print one part, write no file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the peers' words on their own insides
    logging.disable(logging.WARNING)
    text = [
        "# Peers, well tuned",
        "",
        f"`python benchmarks/peers.py`, {stamp()}; {machine(*PACKAGES)}.",
        "",
    ]
    for name in [options.only] if options.only else PARTS:
        began = time.perf_counter()
        for table in PARTS[name](options.quick):
            text.append(table.markdown())
            print(text[-1], flush=True)
        print(f"({name}: {time.perf_counter() - began:.0f} s)", flush=True)
    if not options.quick and not options.only:
        PAGE.write_text("\n".join(text))


if __name__ == "__main__":
    main()
