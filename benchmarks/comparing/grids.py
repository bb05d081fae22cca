"""`calibrate` against grids of strengths: Bonferroni's, and one tested in a fixed sequence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np

from benchmarks.comparing.simulated_attackers import SimulatedAttacker
from benchmarks.pages.tables import Row, Table
from benchmarks.tuning import (
    ALPHA,
    P_MAX,
    SPAN,
    Generator,
    Method,
    Record,
    fixed_test,
    measure,
    ours,
    price,
    share,
)
from trilemma.beliefs.intervals import acceptance_size

__all__ = ["bonferroni", "compared", "fixed_sequence"]

STRENGTHS = 20
FINENESS = (5, 10, 20, 40)  # strengths of the grids among which the cheapest is sought
NOTE = """\
Units are simulated attacks. Both grids span two decades and are told the gradient of the curve, to
size their tests for the power that `calibrate` aims at; `calibrate` is told nothing and looks at
four decades. *Bonferroni*: 20 strengths, each tested at α/20; the weakest that passes.
*Fixed sequence*: 20 strengths, each tested at the full α = .05 from the strongest on, up to the
first that fails; the last that passed. *x ours*: its units over those of `calibrate`.
Over-protection is the strength returned over the weakest one that keeps the budget, median / 90 %
point. *As close*: the smallest number of units, over grids of {fineness} strengths and tests of
all sizes, at which the median over-protection is no larger than ours, over our units (∞: none).
A dash: most runs pass nothing."""

Grid = Callable[[int, int, int], Method]


def bonferroni(strengths: int, size: int, allowed: int) -> Method:
    """The weakest of all strengths that pass `allowed` successes in `size` units."""
    grid = np.linspace(*SPAN, strengths)

    def method(attacker: SimulatedAttacker, generator: Generator) -> tuple[float | None, int]:
        rates = np.array([attacker.success(float(x)) for x in grid])
        passed = generator.binomial(size, rates) <= allowed
        return (float(grid[np.argmax(passed)]) if passed.any() else None), size * strengths

    return method


def fixed_sequence(strengths: int, size: int, allowed: int) -> Method:
    """From the strongest on, up to the first failure: valid with each test at the full α."""
    grid = np.linspace(*SPAN, strengths)[::-1]

    def method(attacker: SimulatedAttacker, generator: Generator) -> tuple[float | None, int]:
        units, best = 0, None
        for x in grid:
            units += size
            if generator.binomial(size, attacker.success(float(x))) > allowed:
                break
            best = float(x)
        return best, units

    return method


def sized(grid: Grid, level: float) -> Method:
    """The grid with tests of the size that gives each of them its power."""

    def method(attacker: SimulatedAttacker, generator: Generator) -> tuple[float | None, int]:
        size, allowed = fixed_test(attacker, level)
        return grid(STRENGTHS, size, allowed)(attacker, generator)

    return method


def cheapest_as_close(
    grid: Grid, divided: bool, curve: str, p_max: float, target: float, runs: int
) -> float:
    """Units of the cheapest grid whose median over-protection is no larger; ∞ if none is."""
    best = math.inf
    for strengths in FINENESS:
        level = ALPHA / strengths if divided else ALPHA
        for allowed in sorted({int(1.3**power) - 1 for power in range(23)}):
            size = acceptance_size(allowed, p_max, level)
            if size >= best:  # every run of either grid tests a strength
                break
            record = measure(grid(strengths, size, allowed), curve, p_max, runs)
            if record.over_protection is not None and record.over_protection <= target:
                best = min(best, record.units)
                break
    return best


def compared(quick: bool) -> Iterable[Table]:
    runs, few = (20, 20) if quick else (300, 200)
    rows = [
        _row(curve, p_max, runs, few)
        for curve, p_max in product(("steep", "moderate", "flat"), P_MAX)
    ]
    yield Table(
        "Calibration: units to a tested strength",
        "curve | p_max | ours, units | over-protection | violations | Bonferroni, x ours | "
        "over-protection | violations | as close | fixed sequence, x ours | over-protection | "
        "violations | as close",
        rows[:1] if quick else rows,
        NOTE.format(fineness=", ".join(map(str, FINENESS))),
    )


def _row(curve: str, p_max: float, runs: int, few: int) -> Row:
    mine = measure(ours, curve, p_max, runs)
    entries = [f"{mine.units:.0f}", price(mine), share(mine.violations, runs)]
    for grid, divided in ((bonferroni, True), (fixed_sequence, False)):
        level = ALPHA / STRENGTHS if divided else ALPHA
        theirs = measure(sized(grid, level), curve, p_max, runs)
        entries += _against(theirs, mine)
        close = cheapest_as_close(grid, divided, curve, p_max, mine.over_protection or 0.0, few)
        entries.append("∞" if math.isinf(close) else f"{close / mine.units:.1f}")
    return (curve, f"{p_max}", *entries)


def _against(theirs: Record, mine: Record) -> list[str]:
    ratio = f"{theirs.units / mine.units:.1f}"
    return [ratio, price(theirs), share(theirs.violations, theirs.runs)]
