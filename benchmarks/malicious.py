"""Crafted models against the proved digits deployment, 300 games of each kind, and against sums.

Makes the certified verdict on digits, unless the folder of such a run is given. A server that
sends one and the same model in all R rounds over full batches learns what one round at 1/R of the
variance shows, exactly: that is what is played.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what pages and tests share

from benchmarks.deployed import SUMS, TUNE, certified
from benchmarks.pages.stamp import stamp
from trilemma.beliefs.intervals import clopper_pearson
from trilemma.game.job_results import AttackResult, decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.scenarios import load_scenario
from trilemma.tuning.proof.attacks_on_proof import recipe_of

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "malicious.md"
GAMES: Final = 300
BARE: Final = 96
CHUNK: Final = 12
KINDS: Final = ("imprint", "trapdoors", "trap")
FAMILIES: Final = ("none", "secret-sharing", "compression:keep=0.05")


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(made) / "run"
        verdict = certified(f"{TUNE} {SUMS}", folder)
    assert verdict.choice is not None
    proof = verdict.choice.certificate
    assert proof is not None
    scenario, least = load_scenario("digits-mlp"), verdict.deployment.threshold
    work = JobRunner(scenario, verdict.claim, 1, 20, 5, threshold=least)()
    noise = Randomization(proof.variance * proof.survivors / least / proof.rounds)
    shown = Protection((noise,), SecretSharing(precision_bits=24, ring_bits=64)).describe()

    def won(job: AttackJob) -> int:
        result = decode(work(job))
        assert isinstance(result, AttackResult)
        return result.won(job.attacks[0])

    size = verdict.claim.candidates
    allowed, rows = proof.success[size], []
    for kind in (*KINDS, None):
        right = sum(
            won(
                AttackJob(
                    *("crafted", shown, ("exact-posterior",), Adversary.SERVER, 1),
                    first=first,
                    count=CHUNK,
                    recipe=recipe_of(verdict.choice),
                    crafted=kind,
                )
            )
            for first in range(0, GAMES, CHUNK)
        )
        sure = clopper_pearson(right, GAMES, 0.95)
        rows.append(
            f"| {kind or 'honest'} | {right} of {GAMES} | {right / GAMES:.3f} "
            f"[{sure.low:.3f}, {sure.high:.3f}] | {allowed:.3f} | "
            f"{'yes' if sure.low <= allowed else 'NO'} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    bare = []
    for spec in FAMILIES:
        counts = [
            won(AttackJob("bare", spec, ("analytic",), Adversary.SERVER, 1, 0, BARE, crafted=kind))
            for kind in (None, *KINDS)
        ]
        bare.append(f"| {spec} | " + " | ".join(f"{count} of {BARE}" for count in counts) + " |")
        print(bare[-1], file=sys.stderr, flush=True)
    lines = [
        "# A server that crafts the model",
        "",
        f"`python benchmarks/malicious.py` ({stamp()})",
        "",
        "## Against a proof",
        "",
        (
            f"`{verdict.protection and verdict.protection.describe()}` over {proof.rounds} "
            f"rounds: an attacker that knows every other record guesses the target among {size}, "
            "from one and the same crafted model in all rounds. Clopper-Pearson intervals of 95 %."
        ),
        "",
        "| model | right | rate | the proof allows | within |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "## Without clip and noise",
        "",
        (
            "Games of one round that are right, batches of 4, ten clients: `analytic` reads "
            "records off the first layer and knows no other records."
        ),
        "",
        "| protection | honest model | imprint | trapdoors | trap |",
        "|---|---|---|---|---|",
        *bare,
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
