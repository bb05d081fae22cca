"""What a federation in Flower's simulation reaches under a verdict, beside what that promises.

Makes the certified verdict on digits, unless the folder of such a run is given, and runs
examples/flower-digits with it as its README says.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what pages and tests share

from tests.deployment.flower.machines import machine, run

from benchmarks.pages.stamp import stamp
from trilemma.tuning.results.verdict import Verdict

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "deployed.md"
TUNE = "tune --knows anyone --helpers 1 --families randomization+secret-sharing --strengths 0"
ACCURACY = re.compile(r"round (\d+): on test digits .*'eval_acc': ([0-9.]+)")


def certified(folder: Path) -> Verdict:
    """The verdict of a run folder, which is made where it is not there."""
    if not (folder / "verdict.json").exists():
        command = [sys.executable, "-m", "trilemma", *TUNE.split(), "--out", str(folder)]
        subprocess.run(command, check=True)
    return Verdict.load(folder)


def deployed(folder: Path, verdict: Verdict) -> tuple[float, float]:
    """The accuracy of the federation after its last round, and seconds a round."""
    own = verdict.deployment
    with tempfile.TemporaryDirectory() as home, machine(Path(home)) as (_, environment):
        app = shutil.copytree(ROOT / "examples" / "flower-digits", Path(home) / "app")
        shutil.copy(folder / "verdict.json", app / "flower_digits")
        settings = {"verdict": "verdict.json", "rounds": own.rounds}
        settings |= {"nodes": own.clients, "least-nodes": own.cohort}
        start = time.perf_counter()
        said = run(app, environment, settings, supernodes=own.clients)
        seconds = time.perf_counter() - start
    reached = {int(number): float(share) for number, share in ACCURACY.findall(said)}
    return reached[own.rounds], seconds / own.rounds


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(made) / "run"
        verdict = certified(folder)
        assert verdict.choice is not None
        costs, proof = verdict.choice.costs, verdict.choice.certificate
        assert costs is not None
        assert proof is not None
        reached, seconds = deployed(folder, verdict)
    least = costs.unprotected_metric - costs.utility_loss.high
    most = costs.unprotected_metric - costs.utility_loss.low
    told = (
        f"`trilemma {TUNE}` on digits, then the same federation in Flower's simulation: "
        f"{verdict.deployment.clients} nodes, {verdict.deployment.rounds} rounds, "
        f"{seconds:.2f} s a round by the wall clock (its start included). Server step "
        f"{proof.server_lr:.3g}{', falling to zero' if proof.server_decay else ''}; each record "
        f"clipped to {proof.record_clip:.3g}; `{verdict.choice.protection}`."
    )
    lines = [
        "# A verdict, deployed",
        "",
        f"`python benchmarks/deployed.py` ({stamp()})",
        "",
        told,
        "",
        "| what | accuracy |",
        "|---|---|",
        f"| unprotected, as tuned | {costs.unprotected_metric:.3f} |",
        f"| promised by the verdict | {costs.protected_metric:.3f} |",
        f"| its interval | {least:.3f} to {most:.3f} |",
        f"| the federation | {reached:.3f} |",
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if not least <= reached <= most:
        sys.exit("the federation leaves the verdict's interval")


if __name__ == "__main__":
    main()
