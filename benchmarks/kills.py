"""One verdict by one, two and four workers, and after kill -9 at many places of its journal.

python benchmarks/kills.py                       # writes docs/benchmarks/kills.md
python benchmarks/kills.py --kills 3             # a few minutes, to see that it runs
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from trilemma.errors import InvalidInput
from trilemma.execution.journal import JOURNAL
from trilemma.execution.store import Store

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "kills.md"
WORDS = (
    *("tune", "--scenario", "digits", "--clients", "3", "--batch", "1", "--rounds", "8"),
    *("--claim", "one-round"),
    *("--budget", "0.4", "--restarts", "1", "--seeds", "2", "--steps", "2", "--candidates", "10"),
    *("--strengths", "2", "--families", "randomization,secret-sharing"),
    *("--attacks", "gaussian-posterior,analytic", "--efficiency-weight", "0"),
)
# Made from measured seconds, or keyed by the folder's own secret.
TIMED = {
    *("efficiency_reduction", "seconds", "train", "protect", "combine", "finish", "data_hash"),
}


def start(folder: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trilemma", *WORDS]
    return subprocess.Popen(
        [*command, "--out", str(folder), "--workers", str(workers)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def committed(folder: Path) -> int:
    try:
        with closing(Store.look(folder / JOURNAL)) as store:
            return 0 if store.is_empty() else store.count()
    except InvalidInput:  # not made yet
        return 0


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: untimed(item) for name, item in value.items() if name not in TIMED}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def fields(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(fields, value.values() if isinstance(value, dict) else value))
    return 1


def finished(folder: Path, workers: int) -> Any:
    if start(folder, workers).wait() not in (0, 1):  # 1: nothing kept the budget, a verdict too
        raise SystemExit(f"the run with {workers} workers failed; see {folder / 'run.log'}")
    return untimed(json.loads((folder / "verdict.json").read_text()))


def killed(folder: Path, total: int, kills: int, workers: int) -> list[int]:
    """Kill at `kills` places spread over the journal; how many chunks each process left."""
    draw, left = random.Random(kills), [0]
    for number in range(kills):
        goal = max(left[-1] + 1, round((total - 2 * kills) * (number + draw.random()) / kills))
        process = start(folder, workers)
        while committed(folder) < goal and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        left.append(committed(folder))
        if left[-1] < left[-2] or (folder / "verdict.json").exists():
            raise SystemExit(f"after kill {number + 1} chunks were lost, or the run had ended.")
    return left[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        calm = finished(Path(made) / "1", 1)
        total = committed(Path(made) / "1")
        rows = [("1", 0, total, True)]
        for workers in (2, 4):
            folder = Path(made) / str(workers)
            rows.append((str(workers), 0, total, finished(folder, workers) == calm))
            print(rows[-1], flush=True)
        folder = Path(made) / "rough"
        places = killed(folder, total, options.kills, 2)
        rows.append(("2", options.kills, committed(folder), finished(folder, 2) == calm))
        print(rows[-1], flush=True)
    page = [
        "# The same verdict, however it came about",
        "",
        (
            f"`python benchmarks/kills.py --kills {options.kills}`, {stamp()}. "
            f"Real attacks and trainings of `trilemma "
            f"{' '.join(WORDS)}`; {fields(calm)} values of verdict.json are compared, all but "
            f"those made from measured seconds and the hash that is keyed by the folder."
        ),
        "",
        "| workers | kills | chunks before the end | the same verdict as one worker's |",
        "|---|---|---|---|",
        *(f"| {w} | {k} | {c} | {'yes' if same else 'NO'} |" for w, k, c, same in rows),
        "",
        f"Chunks that each killed process left: {', '.join(map(str, places))} of {total}.",
    ]
    options.out.write_text("\n".join(page) + "\n")
    if not all(same for *_, same in rows):
        raise SystemExit("verdicts differ; this is a defect.")


if __name__ == "__main__":
    main()
