"""Games to a tested strength: `calibrate`, and optuna's TPE."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import optuna
from scipy.special import ndtr, ndtri

from trilemma.beliefs.intervals import clopper_pearson
from trilemma.tuning.calibration.calibrate import calibrate
from trilemma.tuning.calibration.outcomes import Control
from trilemma.tuning.calibration.sequential_test import fixed_size

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.comparing.simulated_attackers import CURVES, WIDE, SimulatedAttacker
from benchmarks.pages.stamp import stamp

ALPHA = 0.05
P_WIDE = 0.258  # of 38 candidates at leakage .3
WIDE_RUNS = 1000
P_MAX = (0.02, 0.078, 0.286, 0.559)  # leakage .1, .2, .4, .6 where blind guesses never succeed
SPAN = (-0.8, 1.2)  # decades around the warm start that a search covers
WORKS = Control(24, 24)  # all share the control, so it is not counted
TRIALS = 20  # of optuna, of which 10 are its random start
COLUMNS = ("curve", "p_max", "units")
ATTEMPTS = 4  # at testing what optuna found, at alpha / 4 each
INTRODUCTION = """\
Attackers are simulated, so the truth is known: success falls from .9 to .1 within .15 (steep), .45
(moderate) or 1.5 decades (flat) of the parameter; a step from .95 to .005; a plateau at .02; a
bump (a second rise to .7 beyond the fall); and 1.001·p_max at every strength. A wide curve falls
from .37 to .13 over two decades, as where a whole training is linked. The warm start is
off by a factor drawn between 1/2 and 2, α = .05, and nobody knows anything but the attacker's
answers, except that the search is told the gradient of the curve to size its tests, and looks at
two decades where `calibrate` looks at four. Over-protection is the strength returned over the
weakest one that keeps the budget: the median and the 90 % point. Grids of strengths stand in
[peers](peers.md)."""
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "tuning.md"

Generator = np.random.Generator
Method = Callable[[SimulatedAttacker, Generator], tuple[float | None, int]]


@dataclass(frozen=True)
class Record:
    """Runs of one method on one curve."""

    units: float
    units_median: float
    over_protection: float | None
    over_protection_90: float | None
    violations: int
    not_passed: int
    runs: int

    @property
    def violation_low(self) -> float:
        return clopper_pearson(self.violations, self.runs, 0.9).low


def measure(
    method: Method, curve: str, p_max: float, runs: int, spread: float = 0.3, seed: int = 2026
) -> Record:
    row = [seed, (*CURVES, WIDE).index(curve), (*P_MAX, P_WIDE).index(p_max)]
    generator = np.random.default_rng(row)
    units, ratios, violations, missing = [], [], 0, 0
    for _ in range(runs):
        attacker = SimulatedAttacker(curve, p_max, generator.uniform(-spread, spread))
        x, used = method(attacker, generator)
        units.append(used)
        if x is None:
            missing += 1
            continue
        violations += attacker.success(x) > p_max
        ratios.append(10 ** (x - attacker.weakest))
    known = len(ratios) > runs / 2 and max(ratios) > 0
    return Record(
        statistics.fmean(units),
        statistics.median(units),
        float(np.median(ratios)) if known else None,
        float(np.quantile(ratios, 0.9)) if known else None,
        violations,
        missing,
        runs,
    )


def ours(attacker: SimulatedAttacker, generator: Generator) -> tuple[float | None, int]:
    trials = calibrate(attacker.p_max, alpha=ALPHA, control=WORKS)
    result = attacker.play(trials, generator)
    return result.strength, result.units


def fixed_test(attacker: SimulatedAttacker, level: float) -> tuple[int, int]:
    """(n, c) by the rule of `calibrate`: power .85 at .1 decades beyond the weakest strength."""
    alternative = float(ndtr(ndtri(attacker.p_max) - 0.1 / attacker.sd))
    return fixed_size(attacker.p_max, level, alternative, 8000)


def searched(test: bool) -> Method:
    """TPE for the weakest strength whose share of recovered units is within p_max."""

    def search(attacker: SimulatedAttacker, generator: Generator) -> tuple[float | None, int]:
        per_trial = max(24, math.ceil(1 / attacker.p_max))

        def objective(trial: optuna.Trial) -> float:
            x = trial.suggest_float("x", *SPAN)
            share = attacker.won(x, per_trial, generator) / per_trial
            trial.set_user_attr("feasible", share <= attacker.p_max)
            return x if share <= attacker.p_max else SPAN[1] + share

        sampler = optuna.samplers.TPESampler(seed=int(generator.integers(2**31)))
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=TRIALS)
        units = TRIALS * per_trial
        feasible = sorted(t.params["x"] for t in study.trials if t.user_attrs["feasible"])
        if not test:
            return (feasible[0] if feasible else None), units
        size, allowed = fixed_test(attacker, ALPHA / ATTEMPTS)
        for x in feasible[:ATTEMPTS]:
            units += size
            if attacker.won(x, size, generator) <= allowed:
                return x, units
        return None, units

    return search


def price(record: Record) -> str:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    return f"{shown(record.over_protection)} / {shown(record.over_protection_90)}"


def share(count: int, runs: int) -> str:
    return f"{count / runs:.3f}"


def table(title: str, columns: list[str], rows: Iterator[list[str]]) -> list[str]:
    """A Markdown table, printed as it grows."""
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    print(title, *lines, sep="\n", flush=True)
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    return [title, "", *lines, ""]


Own = dict[tuple[str, float], Record]


def own_rows(own: Own, runs: int, speed: float) -> Iterator[list[str]]:
    for curve, p_max in product(CURVES, P_MAX):
        r = own[curve, p_max] = measure(ours, curve, p_max, runs)
        yield [
            curve,
            f"{p_max}",
            f"{r.units:.0f}",
            f"{r.units / speed:.0f}",
            price(r),
            share(r.not_passed, runs),
            share(r.violations, runs),
            f"{r.violation_low:.4f}",
        ]


def followed_rows(own: Own) -> Iterator[list[str]]:
    """Whether games follow the curve: the same budget on curves of every width."""
    for curve in ("steep", "moderate", "flat", WIDE):
        r = own[curve, P_WIDE] = measure(ours, curve, P_WIDE, WIDE_RUNS)
        yield [
            curve,
            f"{r.units_median:.0f}",
            price(r),
            share(r.not_passed, r.runs),
            share(r.violations, r.runs),
            f"{r.violation_low:.4f}",
        ]


def far_rows(runs: int) -> Iterator[list[str]]:
    for curve, p_max in product(("steep", "moderate"), P_MAX):
        r = measure(ours, curve, p_max, runs, spread=1.0)
        yield [
            curve,
            f"{p_max}",
            f"{r.units:.0f}",
            price(r),
            share(r.not_passed, runs),
            share(r.violations, runs),
        ]


def search_rows(own: Own, runs: int) -> Iterator[list[str]]:
    for curve, p_max in product(CURVES, P_MAX):
        mine, r = own[curve, p_max], measure(searched(test=True), curve, p_max, runs)
        loose = measure(searched(test=False), curve, p_max, runs)
        yield [
            curve,
            f"{p_max}",
            f"{r.units:.0f}",
            f"{r.units / mine.units:.1f}",
            price(r),
            share(r.not_passed, runs),
            share(r.violations, runs),
            share(loose.violations, runs),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--search-runs", type=int, default=100)
    parser.add_argument("--units-per-second", type=float, default=50.0)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    runs, few, far = options.runs, options.search_runs, min(500, options.runs)
    speed = options.units_per_second
    own: Own = {}
    lines = table(
        f"{runs} runs a row; seconds at {speed:g} units a second, a stated speed. The limit is "
        f"the one-sided 95 % lower limit of the violation rate; it must not exceed .05.",
        [
            "curve",
            "p_max",
            "units",
            "seconds",
            "over-protection",
            "not passed",
            "violations",
            "limit",
        ],
        own_rows(own, runs, speed),
    )
    lines += table(
        f"Games follow the curve: p_max {P_WIDE}, {WIDE_RUNS} runs a row; the median of units.",
        ["curve", "units", "over-protection", "not passed", "violations", "limit"],
        followed_rows(own),
    )
    lines += table(
        f"With a warm start that is off by up to a factor of 10 either way ({far} runs a row):",
        [*COLUMNS, "over-protection", "not passed", "violations"],
        far_rows(far),
    )
    lines += ["## Against optuna's TPE", ""]
    lines += table(
        f"{few} runs a row, {TRIALS} trials of max(24, 1/p_max) units; then the {ATTEMPTS} "
        f"weakest strengths seen within p_max are tested in turn at α/{ATTEMPTS} with fresh "
        f"units. *Untested*: the violation rate of the best trial taken as it stands.",
        [
            "curve",
            "p_max",
            "units",
            "times ours",
            "over-protection",
            "not passed",
            "violations",
            "untested",
        ],
        search_rows(own, few),
    )
    head = [
        "# Games to a tested strength",
        "",
        f"`python benchmarks/tuning.py --runs {runs} --search-runs {few}`, {stamp()}",
        "",
        INTRODUCTION,
        "",
        "## `calibrate`",
        "",
    ]
    PAGE.write_text("\n".join([*head, *lines[:-1]]) + "\n")


if __name__ == "__main__":
    main()
