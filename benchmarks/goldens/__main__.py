"""Two commits on one machine: do messages, guesses, histories, proofs and choices stay the same?

make goldens BASE=d8de7b2
python -m benchmarks.goldens d8de7b2 --only "guesses*"      # some items; --list names all

Each tree makes the same measurements by its own `benchmarks/goldens/measuring.py`, the base in a
temporary worktree: bits differ between processors, and modules move. An item that differs ends in
exit code 1, unless `EXPECTED` says why it does.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.goldens.measuring import ITEMS, Values

ROOT = Path(__file__).parents[2]
EXPECTED: dict[str, str] = {}  # a pattern of items, and the reason why they differ from the base
CLOSE = 1e-6


def measured(tree: Path, name: str, folder: Path) -> Values:
    path = os.pathsep.join(map(str, (tree / "src", tree)))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    own = [sys.executable, "-m", "benchmarks.goldens.measuring", name, str(folder / "found")]
    subprocess.run(own, env=environment, cwd=folder, check=True)
    values: Values = pickle.loads((folder / "found").read_bytes())
    return values


def distance(old: Any, new: Any) -> float:
    """0 for the same bits, else the largest difference, relative above 1; infinite for others."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return max((distance(old[key], new[key]) for key in old), default=0.0)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        return max((distance(*both) for both in zip(old, new, strict=True)), default=0.0)
    if isinstance(old, str) and isinstance(new, str) and old != new:
        both = parts(old), parts(new)
        return float("inf") if both == ([old], [new]) else distance(*both)
    numbers = (int, float, np.ndarray)
    if not (isinstance(old, numbers) and isinstance(new, numbers)):
        return 0.0 if type(old) is type(new) and old == new else float("inf")
    first, second = np.asarray(old), np.asarray(new)
    if first.dtype == second.dtype and first.tobytes() == second.tobytes():
        return 0.0
    if first.shape != second.shape:
        return float("inf")
    gaps = np.abs(second.astype(float) - first) / np.maximum(1.0, np.abs(first))
    return float(np.nan_to_num(gaps.max(), nan=np.inf, posinf=np.inf))


def parts(text: str) -> list[str | float]:
    """A text in pieces, its numbers as numbers."""
    pieces = re.split(r"(\d+\.?\d*(?:e[-+]?\d+)?)", text)
    return [float(piece) if place % 2 else piece for place, piece in enumerate(pieces)]


def compared(old: Values, new: Values) -> str:
    """A line on an item, which begins with "differs" if it does."""
    for values, tree in ((old, "the base"), (new, "this tree")):
        if failed := values.get("failed"):
            return f"differs: cannot be measured in {tree}: {failed}"
    if reason := new.get("skipped"):
        return f"skipped: {reason}"
    gaps = {key: distance(old.get(key), new.get(key)) for key in {**old, **new}}
    worst = max(gaps, key=lambda key: gaps[key])
    if gaps[worst] <= CLOSE:
        return "same to 1e-6" if gaps[worst] else "same to the bit"
    wrong = sum(gap > CLOSE for gap in gaps.values())
    before, after = (" ".join(str(values.get(worst)).split())[:120] for values in (old, new))
    most = f"most by {gaps[worst]:.2g} {worst!r}: {before} -> {after}"
    return f"differs: {wrong} of {len(gaps)} values, {most}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", help="a commit")
    parser.add_argument("--only", default="*", help="a pattern of items")
    parser.add_argument("--list", action="store_true", help="print the items")
    chosen = parser.parse_args()
    names = [name for name in ITEMS if fnmatch(name, chosen.only)]
    if chosen.list or not (chosen.base and names):
        print("\n".join(ITEMS))
        sys.exit(0 if chosen.list else 2)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        base, worktree = Path(folder) / "base", ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*worktree, "add", "--quiet", "--detach", base, chosen.base], check=True)
        try:
            for name in names:
                line = compared(*(measured(tree, name, Path(folder)) for tree in (base, ROOT)))
                reason = next((EXPECTED[p] for p in EXPECTED if fnmatch(name, p)), "")
                differs = line.startswith("differs")
                wrong += differs and not reason
                print(
                    f"{name}: {line}" + f" (expected: {reason})" * bool(differs and reason),
                    flush=True,
                )
        finally:
            subprocess.run([*worktree, "remove", "--force", base], check=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
