"""What federations in Flower's simulation reach under verdicts, beside what those promise.

    python benchmarks/deployed.py [--runs FOLDER]

Makes three certified verdicts on digits (sums, single messages, these with public records too) in
that folder, unless they are there, and runs examples/flower-digits with each as its README says.
Nodes are Flower's, their noise is the system's. The page is

docs/benchmarks/deployed.md
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what pages and tests share

from tests.deployment.flower.machines import machine, run

from benchmarks.pages.stamp import stamp
from trilemma.tuning.results.verdict import Verdict

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "deployed.md"
ACCURACY = re.compile(r"round (\d+): on test digits .*'eval_acc': ([0-9.]+)")
TUNE: Final = "tune --knows anyone --helpers 1 --strengths 0"
SUMS: Final = "--families randomization+secret-sharing"
ASKED: Final = {
    "sums": f"{TUNE} {SUMS}",
    "single messages": f"{TUNE} --families randomization",
    "single messages, 149 public records": (
        f"{TUNE} --families randomization --scenario digits-public"
    ),
}
TOLD: Final = (
    "Three verdicts on digits, each made by `trilemma` with the settings below, then the same "
    "federation in Flower's simulation: 10 nodes, 150 rounds, FedAvg, one training. A verdict's "
    "interval is that of its own paired trainings."
)


@dataclass(frozen=True)
class Deployed:
    """What a verdict promises, the interval of that, and what the federation reached."""

    unprotected: float
    promised: float
    least: float
    most: float
    reached: float
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether the federation is within the interval."""
        return self.least <= self.reached <= self.most


def certified(asked: str, folder: Path) -> Verdict:
    """The verdict of a run folder, which is made where it is not there."""
    if not (folder / "verdict.json").exists():
        command = [sys.executable, "-m", "trilemma", *asked.split(), "--out", str(folder)]
        subprocess.run(command, check=True)
    return Verdict.load(folder)


def deployed(folder: Path, verdict: Verdict) -> Deployed:
    """The federation's accuracy after its last round, and seconds a round, its start included."""
    assert verdict.choice is not None
    own, costs = verdict.deployment, verdict.choice.costs
    assert costs is not None
    with tempfile.TemporaryDirectory() as home, machine(Path(home)) as (_, environment):
        app = shutil.copytree(ROOT / "examples" / "flower-digits", Path(home) / "app")
        shutil.copy(folder / "verdict.json", app / "flower_digits")
        settings = {"verdict": "verdict.json", "rounds": own.rounds}
        settings |= {"nodes": own.clients, "least-nodes": own.cohort}
        start = time.perf_counter()
        said = run(app, environment, settings, supernodes=own.clients, timeout=3600)
        seconds = time.perf_counter() - start
    reached = {int(number): float(share) for number, share in ACCURACY.findall(said)}
    return Deployed(
        costs.unprotected_metric,
        costs.protected_metric,
        costs.unprotected_metric - costs.utility_loss.high,
        costs.unprotected_metric - costs.utility_loss.low,
        reached[own.rounds],
        seconds / own.rounds,
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "deployed")
    folder = parser.parse_args().runs
    lines = [
        "# Verdicts, deployed",
        "",
        f"`python benchmarks/deployed.py` ({stamp()})",
        "",
        TOLD,
        "",
        "| verdict | unprotected, as tuned | promised | its interval | the federation | a round |",
        "|---|---|---|---|---|---|",
    ]
    settings, missed = [], []
    for name, asked in ASKED.items():
        place = folder / name.replace(", ", "-").replace(" ", "-")
        verdict = certified(asked, place)
        found = deployed(place, verdict)
        lines.append(
            f"| {name} | {found.unprotected:.3f} | {found.promised:.3f} | {found.least:.3f} to "
            f"{found.most:.3f} | {found.reached:.3f} | {found.seconds:.2f} s |"
        )
        server = verdict.deployment.server
        settings += [f"- {name}: `trilemma {asked}`", f"  `{verdict.choice.protection}`, {server}"]  # type: ignore[union-attr]
        missed += [] if found.holds else [name]
        print(lines[-1], flush=True)
    PAGE.write_text("\n".join([*lines, "", *settings]) + "\n")
    if missed:
        sys.exit(f"outside the verdict's interval: {', '.join(missed)}")


if __name__ == "__main__":
    main()
