"""Proof against anyone over a whole training: what it costs, and how near an attacker comes.

    python benchmarks/certificate.py [--out FOLDER]

The recipe, the trainings and the games are those of `trilemma tune --knows anyone --participation
secret`; with --out they are journaled there, and the same command goes on where it was left.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from dp_accounting.pld import privacy_loss_distribution
from riskcal.analysis import get_beta_from_pld
from scipy.stats import binom, norm

from trilemma.accounting.noise_calibration import success_bound
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.beliefs.intervals import clopper_pearson
from trilemma.execution.journal import Run
from trilemma.execution.scheduler import Procedure, Scheduler, together
from trilemma.federation.training import train
from trilemma.game.job_results import decode
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import applied
from trilemma.protection.specs import parse_protection
from trilemma.scenarios import load_scenario
from trilemma.tuning.families.game_counts import played
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.attacks_on_proof import games_beside, recipe_of
from trilemma.tuning.proof.proved_candidates import certified_candidate
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "certificate.md"
FAMILY = "randomization+secret-sharing"
SEEDS, GAMES = 10, 304
CASES = {
    "threshold 7, one curious client": ({"threshold": 7, "helpers": 1}, 0.045),
    "all ten survive, the server alone": ({"threshold": 10, "helpers": 0}, 0.03),
}
PLAYED = next(iter(CASES))
INTRODUCTION = """\
Digits, 10 clients of 150 records, batches of 4 by Poisson sampling, 150 rounds, an MLP of 2,410
parameters: the leakage is at most .3 at every N, whatever the attacker knows. Clip and server step
are those of a rule; the step of the unprotected training is chosen on one half of the test
records, and accuracy is that on the other half."""

COSTS = f"""\
{SEEDS} pairs of trainings. *Real* is the accuracy of the same trainings with the keys, shares and
masks of real secret sharing in each of the 150 rounds; elsewhere its fixed-point twin computes the
same sums. The interval covers seeds and test records."""
POSTERIOR = f"""\
The exact posterior of an attacker that knows every other record, in {{games}} trainings ({PLAYED};
only the noise of the honest survivors is in the sum). *Factor*: the certificate's rate over the
one measured."""
OTHERS = """\
R, q, z with participation secret. riskcal takes the worse of both orders of present and absent,
which differ for small candidate sets; both err upwards, by the steps of their grids."""


WHO: Final[tuple[Participation, ...]] = ("secret", "known")


@dataclass(frozen=True)
class Found:
    plan: Plan
    candidate: Candidate
    right: dict[Participation, int]


def tuned(settings: dict[str, int], games: int, run: Run | None) -> Found:
    """The certified candidate, and the right guesses of the exact posterior in so many games."""
    asked = Request(
        knows="anyone", participation="secret", families=(FAMILY,), seeds=SEEDS, **settings
    )
    plan = Plan.of(load_scenario("digits"), asked)

    def right(who: Participation) -> Procedure[int]:
        job = games_beside(plan, candidate)
        job = replace(job, attacks=(plan.suite.lead,), count=games, participation=who)
        seen = yield from played(job, chunk=8)
        return int(seen.correct[plan.suite.lead].sum())

    with plan.pool(1) as pool:
        scheduler = Scheduler(pool, decode, run=run)
        (family,) = plan.families
        candidate = scheduler.run_all({FAMILY: certified_candidate(plan, family)})[FAMILY]
        played_by = [right(who) for who in WHO] if games else []
        counted = scheduler.run_all({"right": together(played_by)})["right"]
    return Found(plan, candidate, dict(zip(WHO, counted, strict=False)))


def through_real_sessions(found: Found) -> float:
    """The mean accuracy of the same trainings with real keys, shares and masks in every round."""
    recipe, proof = recipe_of(found.candidate), found.candidate.certificate
    if recipe is None or proof is None:
        raise SystemExit(f"{found.candidate.name} has no certificate.")
    recipe = replace(recipe, judge="reporting", rounds=proof.rounds)
    scenario, seeds = applied(recipe, found.plan.scenario), found.plan.pricing.seeds
    histories = train(
        scenario,
        parse_protection(found.candidate.protection or "none"),
        recipe,
        seeds=seeds,
        weights=fresh_weights(scenario, seeds),
        public=scenario.public_records,
    )
    return math.fsum(history.metric for history in histories) / len(histories)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    print(*lines, "", sep="\n", flush=True)
    return [*lines, ""]


def cost_row(name: str, found: Found, wanted: float, real: float) -> list[str]:
    costs, proof = found.candidate.costs, found.candidate.certificate
    if costs is None or proof is None:
        raise SystemExit(f"{name}: {found.candidate.statement}")
    loss = costs.utility_loss
    return [
        name,
        f"{proof.noise_multiplier:.3f}",
        f"{proof.survivors}",
        f"{proof.record_clip:.3g}, {proof.server_lr:.3g}",
        f"{costs.unprotected_metric:.4f}",
        f"{costs.protected_metric:.4f}",
        f"{real:.4f}",
        f"{loss.value:.4f} [{loss.low:.4f}, {loss.high:.4f}]",
        f"{wanted:g}",
    ]


def game_rows(found: Found, games: int) -> Iterable[list[str]]:
    proof, size = found.candidate.certificate, found.plan.claim.candidates
    if proof is None or proof.known is None:
        raise SystemExit("the candidate has no certificate.")
    for who, right in found.right.items():
        bound = (proof.success if who == "secret" else proof.known)[size]
        seen = clopper_pearson(right, games)
        yield [
            who,
            f"{size}",
            f"{right} of {games}",
            f"{right / games:.3f} [{seen.low:.3f}, {seen.high:.3f}]",
            f"{bound:.3f}",
            f"{bound * games / max(1, right):.2f}",
        ]


def riskcal_rows() -> Iterable[list[str]]:
    for training in (
        Training(150, 4 / 150, 0.52),
        Training(150, 4 / 150, 0.61),
        Training(1000, 0.01, 1.0),
        Training(1000, 0.1, 3.0),
    ):
        once = privacy_loss_distribution.from_gaussian_mechanism(
            training.noise_multiplier, sampling_prob=training.q, value_discretization_interval=1e-3
        )
        losses = once.self_compose(training.rounds)
        for size in (2, 10, 20, 38, 100, 1000):
            theirs = 1 - float(get_beta_from_pld(losses, alpha=1 / size))
            ours = success_bound(training, size)
            setting = f"{training.rounds}, {training.q:.4g}, {training.noise_multiplier:g}"
            yield [setting, f"{size}", f"{ours:.5f}", f"{theirs:.5f}", f"{ours - theirs:+.1e}"]


def closed_rows() -> Iterable[list[str]]:
    def told(size: int, shift: float) -> float:
        return float(norm.sf(norm.isf(1 / size) - shift))

    for size in (2, 38, 100, 1000):
        known = math.fsum(
            float(binom.pmf(k, 150, 4 / 150)) * told(size, math.sqrt(k) / 0.61) for k in range(151)
        )
        for name, training, exact in (
            ("one round that holds the record", Training(1, 1.0, 0.61), told(size, 1 / 0.61)),
            ("150 full batches", Training(150, 1.0, 8.0), told(size, math.sqrt(150) / 8)),
            ("150 rounds, known", Training(150, 4 / 150, 0.61, "known"), known),
        ):
            ours = success_bound(training, size)
            yield [name, f"{size}", f"{ours:.6f}", f"{exact:.6f}", f"{ours - exact:+.1e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=GAMES)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    costs, played = [], None
    for place, (name, (settings, wanted)) in enumerate(CASES.items()):
        about = {"command": "benchmark", "seeds": SEEDS, **settings}
        folder = options.out and options.out / str(place)
        with Run.open(folder, about) if folder else nullcontext() as run:
            found = tuned(settings, options.games if name == PLAYED else 0, run)
        costs.append(cost_row(name, found, wanted, through_real_sessions(found)))
        played = played or found
        print(*costs[-1], sep=" | ", flush=True)
    if played is None:
        raise SystemExit("there is no case to be shown.")
    lines = [
        "# A certificate for a whole training",
        "",
        f"`python benchmarks/certificate.py`, {stamp()}.",
        "",
        INTRODUCTION,
        "",
        "## What it costs",
        "",
        COSTS,
        "",
    ]
    titles = "proved for|z|honest noise of|clip, step|unprotected|certified|real|loss|wanted"
    lines += table(titles.split("|"), costs)
    lines += [
        "## How near the best attacker comes",
        "",
        POSTERIOR.format(games=options.games),
        "",
    ]
    titles = "participation|N|right guesses|rate|certificate|factor"
    lines += table(titles.split("|"), game_rows(played, options.games))
    lines += [
        "## Against riskcal and closed forms",
        "",
        OTHERS,
        "",
    ]
    lines += table(["R, q, z", "N", "ours", "riskcal", "difference"], riskcal_rows())
    lines += table(["closed form", "N", "ours", "exact", "difference"], closed_rows())
    PAGE.write_text("\n".join(lines[:-1]) + "\n")


if __name__ == "__main__":
    main()
