"""Canaries in the proved digits deployment, as it should be and with faults.

Makes the certified verdict on digits, unless the folder of such a run is given. Whole trainings
sum in the clear (the transport's arithmetic to the bit), one is run with keys, shares and masks.
Of 100 more runs a deployment the scores are drawn, with fresh noise and all else fixed.
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what pages and tests share


from benchmarks.deployed import SUMS, TUNE, certified
from benchmarks.pages.stamp import stamp
from trilemma.accounting.canary_bound import CanaryCount, count_canaries
from trilemma.entropy import Seeded, System
from trilemma.federation.canary_run import RAW, run_canaries
from trilemma.federation.conformance import records_bounded
from trilemma.federation.recipe import Recipe
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining, client_update
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.scenarios import load_scenario
from trilemma.tuning.audit_canaries import audit_verdict
from trilemma.tuning.proof.attacks_on_proof import recipe_of

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "canaries.md"
RUNS: Final = 100
WHOLE: Final = 2
CANARIES: Final = 500


@dataclass(frozen=True)
class Reused(Randomization):
    """Noise whose first client draws it from one and the same seed in every round."""

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        own = Seeded(7) if client == 0 else entropy
        return super().apply(update, client=client, round=round, entropy=own)


def ideal(mu: float) -> list[str]:
    """What canaries show that nothing but Gaussian noise hides, and how often it is too much."""
    lines = ["| canaries | median of the bound over mu | bounds above mu |", "|---|---|---|"]
    draw = np.random.default_rng(0)
    for count in (100, 300, 500, 1000):
        shown = []
        for _ in range(2000):
            used = draw.random(count) < 0.5
            scores = used + draw.normal(size=count) / mu
            shown.append(count_canaries(scores, used, 1).mu / mu)
        above = np.mean(np.array(shown) > 1)
        lines.append(f"| {count:,} | {np.median(shown):.2f} | {above:.3f} of 2,000 |")
    return lines


def deployments(protection: Protection, recipe: Recipe) -> dict[str, tuple[Protection, Recipe]]:
    """The deployment as proved, and with one fault each.

    Without a clip gradients leave the transport's range and make the server's step diverge; who
    leaves it out has to change both.
    """
    noise = next(
        transform for transform in protection.transforms if isinstance(transform, Randomization)
    )
    training = replace(recipe.local_training, record_clip=None)
    unclipped = replace(recipe, local_training=training, server_lr=1.0)
    wide = replace(protection, transport=SecretSharing(clip_range=8.0))

    def under(*transforms: Any) -> Protection:
        return Protection(transforms, protection.transport)

    return {
        "as proved": (protection, recipe),
        "no noise": (under(), recipe),
        "noise / 3": (under(replace(noise, variance=noise.variance / 9)), recipe),
        "no clip": (wide, unclipped),
        "one client's seed reused": (under(Reused(noise.variance)), recipe),
    }


def noise_alone(protection: Protection, recipe: Recipe, clip: float, seed: int) -> CanaryCount:
    """What canaries show where all else is fixed: their parts, and the noise of ten clients.

    Directions are orthogonal and records are subtracted, so that along each canary the noise is
    N(0, 10 v) in every round, whatever the directions are.
    """
    assert recipe.rounds is not None
    draw = Seeded(seed).generator("noise alone")
    used = draw.random(CANARIES) < 0.5
    length = 1.0 if recipe.local_training.record_clip is not None else RAW
    deviation = math.hypot(*(transform.scale for transform in protection.transforms))
    deviation = math.hypot(deviation, protection.transport.step_size() / math.sqrt(12))
    scale = deviation * math.sqrt(10) * recipe.local_training.batch / clip
    noise = scale * draw.normal(size=(recipe.rounds, CANARIES)).mean(0)
    return count_canaries(length * used + noise, used, recipe.rounds)


def _sent(
    scenario: Scenario,
    protection: Protection,
    training: LocalTraining,
    number: int,
    weights: torch.Tensor,
    faulty: bool,
    rows: torch.Tensor,
) -> torch.Tensor:
    """What a client sends of some records at a model of its own, always with the same noise."""
    records = scenario.records[number % len(scenario.records)]
    info = RoundInfo.new([0], Seeded(number), run="conformance")
    given = records.inputs[rows], records.labels[rows]
    with torch.no_grad():
        update = client_update(scenario.task, weights, *given, training)
    if faulty:
        update = update * training.batch / len(rows)
    return protection.apply(update.double(), 0, info, Seeded(number)).values


def bounded(scenario: Scenario, protection: Protection, recipe: Recipe, faulty: bool) -> int:
    """In how many of 100 models the test of the denominator fails."""
    training, failed = recipe.local_training, 0
    assert training.record_clip is not None
    for number in range(RUNS):
        records = scenario.records[number % len(scenario.records)]
        weights = fresh_weights(scenario, [number])[0]
        sent = partial(_sent, scenario, protection, training, number, weights, faulty)
        bound = training.record_clip / training.batch
        found = records_bounded(sent, len(records), bound, number)
        failed += not next(item for item in found if item.test == "denominator").holds
    return failed


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(made) / "run"
        verdict = certified(f"{TUNE} {SUMS}", folder)
    assert verdict.choice is not None
    proof, own = verdict.choice.certificate, recipe_of(verdict.choice)
    assert proof is not None
    assert own is not None
    assert verdict.protection is not None
    scenario = applied(own, load_scenario("digits-mlp"))
    mu = math.sqrt(proof.rounds) / proof.noise_multiplier
    present = mu * math.sqrt(proof.survivors / verdict.deployment.cohort)
    rows = []
    every = deployments(verdict.protection, replace(own, rounds=proof.rounds))
    for name, (protection, recipe) in every.items():
        counts = [noise_alone(protection, recipe, proof.record_clip, seed) for seed in range(RUNS)]
        low, middle, high = np.quantile([count.mu for count in counts], (0.1, 0.5, 0.9))
        alarms = sum(count.mu > mu for count in counts)
        shown, whole_alarms, noise, fresh = [], 0, 0, 0
        for seed in range(WHOLE):
            run = run_canaries(
                scenario,
                protection,
                recipe,
                clip=proof.record_clip,
                denominator=recipe.local_training.batch,
                canaries=CANARIES,
                seed=seed,
                messages=False,
                weights=fresh_weights(scenario, [seed])[0],
            )
            shown.append(run.count.mu)
            whole_alarms += run.count.mu > mu
            sized, unrelated = run.findings
            noise, fresh = noise + (not sized.holds), fresh + (not unrelated.holds)
        rows.append(
            f"| {name} | {middle:.3f} [{low:.3f}, {high:.3f}] | {alarms} | "
            f"{min(shown):.3f} to {max(shown):.3f} | {whole_alarms} | {noise} | {fresh} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    whole = audit_verdict(load_scenario("digits-mlp"), verdict, canaries=CANARIES, seed=0)
    clean, faulty = (bounded(scenario, verdict.protection, own, value) for value in (False, True))
    lines = [
        "# Canaries in a deployment",
        "",
        f"`python benchmarks/canaries.py` ({stamp()})",
        "",
        (
            f"Digits, {verdict.deployment.clients} clients, {proof.rounds} rounds, "
            f"`{verdict.protection.describe()}`; {CANARIES} canaries. Proved "
            f"is mu = {mu:.3f}, which counts the noise of {proof.survivors} honest clients; all "
            f"{verdict.deployment.cohort} took part here, whose noise leaves mu = {present:.3f}."
        ),
        "",
        "## Canaries that nothing but noise hides",
        "",
        *ideal(mu),
        "",
        "## The deployment, as proved and with one fault each",
        "",
        (
            f"{RUNS} runs of the canaries' scores with fresh noise and all else fixed: the median "
            "of the lower bounds on mu at 95 %, where 80 of 100 lie, and alarms: bounds above "
            f"what was proved. Beside them {WHOLE} whole trainings: their bounds, alarms, and "
            "how often the two tests of the noise fail."
        ),
        "",
        (
            f"| deployment | bound | alarms of {RUNS} | whole trainings | alarms of {WHOLE} | "
            "noise test fails | fresh noise fails |"
        ),
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        (
            f"With keys, shares, masks and the system's noise, one training: {whole.right} of "
            f"{CANARIES} told rightly, mu at least {whole.mu_low:.3f}, tests "
            f"{'hold' if whole.conforms else 'FAIL'}."
        ),
        "",
        "## The denominator",
        "",
        (
            f"Of {RUNS} models each, the test fails for {clean} as deployed, and for {faulty} "
            "where a client divides by the number of its records."
        ),
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
