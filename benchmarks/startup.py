"""How long a user waits for the light commands, against the price of importing torch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

SOLVE = ["solve", "--c1", "0.9", "--c2", "200", "--budget", "0.3"]
BILLION = ["--parameters", "1000000000", "--delta", "0.5", "--sigma", "0.05"]
COMMANDS = {
    "`trilemma --help`": ["-m", "trilemma", "--help"],
    "`trilemma solve`, m = 10⁹": ["-m", "trilemma", *SOLVE, *BILLION],
    "`python -c 'import torch'` (baseline)": ["-c", "import torch"],
}
TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "startup.md"


def seconds(arguments: list[str], repeats: int = 7) -> float:
    """Median wall time of a fresh process, after one warm-up."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    measured = {name: seconds(arguments) for name, arguments in COMMANDS.items()}
    *_, baseline = measured.values()
    lines = ["| command | seconds (median of 7) | times the baseline |", "|---|---|---|"]
    lines += [f"| {name} | {t:.2f} | {t / baseline:.2f} |" for name, t in measured.items()]
    table = "\n".join(lines) + "\n"
    TABLE.write_text(f"# Start-up\n\n`python benchmarks/startup.py`, {stamp()}\n\n{table}")
    print(table, end="")


if __name__ == "__main__":
    main()
