"""How leakage and costs go with a family's strength: estimates, to be looked at.

A verdict's claim rests on its tests, at single strengths. A curve has few games, the same ones at
every strength, around the strength that was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.tuning.fronts.meter import Meter

if TYPE_CHECKING:
    from trilemma.tuning.families.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Procedure

__all__ = ["curve_procedures", "grid"]

_WEAKER, _STRONGER = 1.5, 0.5  # decades around the strength that was found
_UNITS: Final = 24  # at each strength
_SEEDS: Final = 3  # enough to see a trend; the choice is priced on all of them
_SHOWN: Final = ("randomization", "randomization+secret-sharing", "compression")


def curve_procedures(plan: Plan, candidates: Sequence[Candidate]) -> dict[str, Procedure]:
    """The points: no protection first, then each family from weak to strong.

    At the strength that was found, and of a bare sum, the test's own counts are taken. Families
    that look alike to the adversary have one curve between them.
    """
    meter = Meter(plan, _UNITS, _SEEDS)
    wanted: dict[str, Procedure] = {"curve of none": meter.unprotected}
    found = {each.name: each for each in candidates}
    for family in plan.families:
        name, candidate = f"curve of {family.name}", found.get(family.name)
        if candidate is None or not family.deployable:
            continue
        if family.seen == "nothing":
            wanted[name] = meter.point(family, 0.0)
        elif family.mechanism is None or family.name not in _SHOWN:
            if candidate.costs is not None:
                wanted[name] = _tested(meter, family, candidate)
        else:
            for x in grid(family, candidate, plan.request.strengths):
                at = meter.point(family, family.place(x))
                wanted[f"{name} at {family.strength(x):.3g}"] = at
            if candidate.costs is not None:
                wanted[f"{name} as tested"] = _tested(meter, family, candidate)
    return wanted


def _tested(meter: Meter, family: Family, candidate: Candidate) -> Procedure:
    return lambda _: meter.tested(family, candidate)


def grid(family: Family, candidate: Candidate, count: int) -> tuple[float, ...]:
    """Strengths around the one that was found, or over the whole domain where none was."""
    low, high = family.domain
    if candidate.strength is not None:
        x = family.decades(candidate.strength)
        low, high = max(low, x - _WEAKER), min(high, x + _STRONGER)
    return tuple(np.linspace(low, high, count).tolist())
