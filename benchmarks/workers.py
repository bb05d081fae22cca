"""Wall seconds of one measurement in one and in two worker processes; needs two quiet cores.

python benchmarks/workers.py                     # writes docs/benchmarks/workers.md
python benchmarks/workers.py --units 40          # a minute, to see that it runs
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from trilemma.beliefs.recovery import Criterion
from trilemma.game.recovering.recoveries import measure
from trilemma.game.recovering.units import Measurement
from trilemma.scenarios import load_scenario

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=300, help="of each of the ten clients")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/workers.md"))
    options = parser.parse_args()
    source = partial(load_scenario, "digits")
    lines = [
        "# Two workers against one",
        "",
        (
            f"Made by `python benchmarks/workers.py --units {options.units}`, "
            f"{stamp()}: DLG, 3 restarts, on unprotected digits updates of 4 records, "
            f"10 clients. Wall seconds from call to result, the start of the processes included; "
            f"the outcomes are compared unit by unit."
        ),
        "",
        "| units | workers | seconds | units / second | ratio |",
        "|---|---|---|---|---|",
    ]
    seconds: dict[int, float] = {}
    outcomes = {}
    for workers in (1, 2):
        began = time.perf_counter()
        _, outcomes[workers] = measure(
            source, Measurement(units=options.units), Criterion(), workers=workers
        )
        seconds[workers] = time.perf_counter() - began
        units = len(outcomes[workers].client)
        lines.append(
            f"| {units} | {workers} | {seconds[workers]:.1f} | {units / seconds[workers]:.1f} "
            f"| {seconds[1] / seconds[workers]:.2f} |"
        )
        print(lines[-1], flush=True)
    if not np.array_equal(outcomes[1].similarity, outcomes[2].similarity):
        raise SystemExit("one and two workers disagree; this is a defect.")
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
