"""The weakest protection whose attack success is at most p_max, with confidence 1 - α.

Strength is x = log₁₀(strength / warm start); a larger x always protects more. The procedure
explores with a few units, then tests single strengths, from a safe one towards weaker ones; an
attack that fares badly without protection is tested there at once. Where success falls over
decades of the strength, both take more units: as many as the gradient asks for.

Why the result is valid whatever the curve: call a strength bad when its success rate exceeds
p_max. Tests come in chains. Chain j tests at level α_j, goes on after a pass and ends at the first
fail, and chain j + 1 is begun only when chain j passed nothing, so the result is the last pass of
one chain. If it is bad, some bad strength of that chain passed, and therefore the first bad one
that the chain tested. Which strength that is may depend on everything seen before, but its units
are drawn afterwards, so it passes with probability at most α_j given the past. Over all chains the
error is at most Σ α_j = .8 α + .2 α Σ 2⁻ʲ < α. No shape of the curve and no model enters; a poor
model, or an early end, costs units or strength only. Two conditions remain with the caller: each
requested unit is an independent draw (data, model and mechanism), and none is used twice.

Mean units and over-protection, by budget and gradient, are in docs/benchmarks/tuning.md.
"""

from __future__ import annotations

import math
from typing import Final

from trilemma.errors import InvalidInput
from trilemma.quantities import between
from trilemma.tuning.calibration.calibration_state import (
    EXPLORED,
    FIRST_CHAIN,
    Search,
    exploration,
    separation,
    tests_of,
)
from trilemma.tuning.calibration.outcomes import Calibration, Control, Trials
from trilemma.tuning.calibration.sequential_test import usual_test

__all__ = ["EXPLORED", "calibrate", "crossing", "games_needed"]

_NARROWEST: Final = 1e-3  # decades of a domain: the belief's lattice is as fine as the domain
_THERE: Final = 12  # units of an estimate that are played at the strength itself
_USUAL: Final = 3  # tests of a chain
_WIDTH: Final = 0.3  # decades of a usual curve's sd


def calibrate(
    p_max: float,
    control: Control,
    *,
    alpha: float = 0.05,
    domain: tuple[float, float] = (-2.0, 2.0),
    unprotected: bool = True,
    first_unit: int = 0,
) -> Trials[Calibration]:
    """The weakest x in `domain` (or no protection) shown to have success ≤ p_max at level α.

    `control` is how the attack fares without protection, from where its success falls. The
    procedure draws nothing at random: the same answers give the same trials in the same order, so
    that a run that journals its games can be stopped anywhere and played again.
    `unprotected=False` leaves out strength 0 as a possible result. Units are numbered from
    `first_unit`.

    >>> trials = calibrate(0.286, Control(24, 24))
    >>> wanted = next(trials)
    >>> try:
    ...     while True:  # all fall below 10**0.2 times the warm start
    ...         wanted = trials.send([t.units * (t.strength < 0.2) for t in wanted])
    ... except StopIteration as end:
    ...     round(end.value.strength, 3), end.value.units
    (0.225, 56)
    """
    _check(p_max, alpha, domain)
    search = Search(p_max, alpha, first_unit)
    search.believe(domain, control, unprotected)
    best = yield from search.walks()
    return search.passed(best) if best is not None else search.not_passed()


def games_needed(p_max: float, alpha: float) -> tuple[int, int]:
    """How few games can end a calibration, and how many an exploration and three tests take.

    The fewest: no protection passes at once. The most: on a usual curve; wider ones take more,
    and a search that fails begins further chains.
    """
    level = FIRST_CHAIN * alpha
    longest = usual_test(p_max, level, separation(_WIDTH)).looks[-1]
    least = min(test.looks[test.soonest] for test in tests_of(p_max, level))
    return least, exploration(_WIDTH) + _USUAL * longest


def crossing(p_max: float, *, domain: tuple[float, float], units: int) -> Trials[float]:
    """An estimate of the x at which the success rate is p_max, from so many units; no test."""
    _check(p_max, 0.5, domain)
    search = Search(p_max, 0.5, 0)
    search.believe(domain, Control(units, units), unprotected=False)
    yield from search.explore(units, there=_THERE)
    low, high = domain
    return min(high, max(low, search.curve.crossing(p_max)[0]))


def _check(p_max: float, alpha: float, domain: tuple[float, float]) -> None:
    between("p_max", p_max)
    between("alpha", alpha)
    low, high = domain
    if not (math.isfinite(low) and math.isfinite(high) and high - low >= _NARROWEST):
        raise InvalidInput(
            f"domain (weakest and strongest log10 strength) must be finite and rise by "
            f"{_NARROWEST} at least, got {low} to {high}."
        )
