"""Verdicts attacked again with fresh games, by every attack of their knowledge.

    python benchmarks/verdicts.py [--workers 2] [--out FOLDER]      # hours of one core
    python benchmarks/verdicts.py --claims one-round --budgets .3 --kinds of knowledge candidates
    --games 60

Each cell is a budget, a knowledge and a family, calibrated as `trilemma tune` does it; then fresh
games (a stream of their own: other weights, batches, candidate sets and noise) are played at the
strength found. A cell is broken where an attack guesses right significantly more often than p_max:
exact one-sided test at .05 over the number of cells. With --out all games are journaled there, and
the same command goes on where it was left.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from scipy.stats import binom

from trilemma.execution.journal import Run
from trilemma.execution.pool import WorkerPool
from trilemma.execution.progress import Ticker
from trilemma.execution.scheduler import Procedure, Scheduler
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, Job
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.scenarios import load_scenario
from trilemma.tuning.families.calibrator import stream_of
from trilemma.tuning.families.family import Family
from trilemma.tuning.families.game_counts import Measured
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "verdicts.md"
BUDGETS, KNOWLEDGE_LEVELS = (0.2, 0.3, 0.5), ("nothing", "public", "candidates")
FAMILIES = (
    *("randomization", "randomization+secret-sharing"),
    *("compression", "compression+randomization", "secret-sharing"),
)
CLAIMS = ("one-round", "training", "training, full batches")
LEVEL = 0.05


@dataclass(frozen=True)
class Cell:
    """One family of one request: what was found for it, and the right guesses of fresh games."""

    plan: Plan
    family: Family
    found: Measured
    won: dict[str, int]


def plans(
    scenario: Scenario, options: argparse.Namespace, budgets: Sequence[float], claim: str
) -> list[Plan]:
    whole = claim != "one-round"
    return [
        Plan.of(
            scenario,
            Request(
                budget=budget,
                knows=knows,
                claim="training" if whole else "one-round",
                families=tuple(options.families),
                attacks=options.attacks,
                restarts=options.restarts,
            ),
        )
        for budget in budgets
        for knows in options.knowledge_levels
        if not (whole and knows == "nothing")
    ]


def cell(plan: Plan, family: Family, games: int, chunk: int) -> Procedure[Cell]:
    """Calibrate a family, and attack what was found with games of a stream of their own."""
    found = yield from plan.calibrator().measure(family)
    x = found.calibration.strength
    if x is None:
        return Cell(plan, family, found, {})
    spec = family.attacked(x, Adversary.SERVER).describe()
    rounds = plan.claim.rounds if family.whole_training else 1
    tasks = {
        attack: [
            AttackJob(
                *("again", spec, (attack,), Adversary.SERVER, rounds),
                first=first,
                count=min(chunk, games - first),
            )
            for first in range(0, games, chunk)
        ]
        for attack in plan.suite.attacks
    }
    results = iter((yield [task for item in tasks.values() for task in item]))
    return Cell(
        plan,
        family,
        found,
        {name: sum(next(results).won(name) for _ in task) for name, task in tasks.items()},
    )


def measured(
    scenario: Scenario, made: Sequence[Plan], games: int, workers: int, run: Run | None
) -> list[Cell]:
    """Every cell, those of all plans side by side; a GPU takes fresh games in wide calls."""
    chunk = 16 if scenario.device == "cpu" else 100
    asked = made[0].request
    job_runner = JobRunner(scenario, None, asked.restarts, asked.steps, asked.seed)
    procedures = {
        f"{plan.request.budget} {plan.request.knows} {family.name}": cell(
            plan, family, games, chunk
        )
        for plan in made
        for family in plan.families
    }
    pool: WorkerPool[Job] = WorkerPool(job_runner, workers=workers)
    with Ticker("verdicts") as ticker, pool:
        scheduler = Scheduler(pool, decode, run=run, watcher=ticker)
        return list(scheduler.run_all(procedures).values())


def table(found: Sequence[Cell], games: int) -> list[str]:
    """Rows of markdown, and the verdict on the verdicts."""
    tried = sum(bool(item.won) for item in found)
    rows = [
        "| budget | knowledge | family | strength | p_max | right, by attack | smallest p | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    broken = 0
    for item in found:
        asked, won = item.plan.request, item.won
        strength = item.family.strength(item.found.calibration.strength)
        shown = "–" if strength is None else f"{strength:.3g}"
        first = f"| {asked.budget} | {asked.knows} | {stream_of(item.family)} | {shown} "
        if not won:
            rows.append(f"{first}| {item.plan.p_max:.3f} | no strength passes | – | – |")
            continue
        values = {
            name: float(binom.sf(count - 1, games, item.plan.p_max)) for name, count in won.items()
        }
        least = min(values.values())
        holds = least > LEVEL / tried
        broken += not holds
        counts = ", ".join(f"{name} {count}" for name, count in won.items())
        mark = "holds" if holds else "**broken**"
        rows.append(f"{first}| {item.plan.p_max:.3f} | {counts} | {least:.2g} | {mark} |")
    verdict = f"{tried} cells attacked with {games} fresh games each: {broken} broken."
    return [verdict, "", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", nargs="+", choices=CLAIMS, default=list(CLAIMS))
    parser.add_argument("--budgets", nargs="+", type=float, default=list(BUDGETS))
    parser.add_argument(
        "--kinds of knowledge",
        nargs="+",
        choices=KNOWLEDGE_LEVELS,
        default=list(KNOWLEDGE_LEVELS),
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--attacks", nargs="+", help="default: all of that knowledge")
    parser.add_argument("--games", type=int, default=None, help="default: 300, or 200 trainings")
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="a folder for the journals")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    words = " ".join(
        f"--{name} {' '.join(map(str, getattr(options, name)))}"
        for name in ("claims", "budgets", "kinds of knowledge", "families", "attacks")
        if getattr(options, name)
    )
    how = f"`python benchmarks/verdicts.py {words} --restarts {options.restarts}`"
    asked = "Digits, 10 clients, batches of 4."
    page = [
        "# Verdicts, attacked again",
        "",
        f"{how}, {stamp()}, {options.device}. {asked}",
    ]
    for claim in options.claims:
        full = claim.endswith("full batches")
        scenario = load_scenario("digits", batch=150 if full else 4, device=options.device)
        budgets = options.budgets if claim == "one-round" else [0.3]
        games = options.games or (300 if claim == "one-round" else 200)
        made = plans(scenario, options, budgets, claim)
        settings = {
            "command": "verdicts",
            "claim": claim,
            "restarts": options.restarts,
            "attacks": options.attacks,
        }
        folder = None if options.out is None else options.out / claim.replace(", ", "-")
        opened = nullcontext(None) if folder is None else Run.open(folder, settings)
        with opened as run:
            found = measured(scenario, made, games, options.workers, run)
        size = made[0].claim.candidates
        rounds = made[0].claim.rounds
        page += ["", f"## {claim.capitalize()}: {rounds} rounds, N = {size}", ""]
        page += table(found, games)
        options.page.write_text("\n".join(page) + "\n")
        print("\n".join(page))


if __name__ == "__main__":
    main()
