"""How leakage and costs go with a mechanism's strength: estimates, and what theory predicts.

A verdict's claim rests on its tests, at single strengths. Its curves are there to be looked at:
few units, the same ones at every strength, over the range where the calibration saw recovery end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.tuning.calibrating.outcomes import UNPROTECTED, Calibration
from trilemma.tuning.choosing.families import clients_in, fisher
from trilemma.tuning.results.verdict import Prediction
from trilemma.work.executors import one_thread

if TYPE_CHECKING:
    from trilemma.tuning.calibrating.gauge import Measured
    from trilemma.tuning.choosing.families import Family
    from trilemma.tuning.choosing.procedures import Procedure
    from trilemma.tuning.fronts.meter import Meter
    from trilemma.tuning.fronts.points import Evaluated
    from trilemma.tuning.plan import Plan

__all__ = ["calibrations", "curve_procedures", "grid", "predictions"]

_REACH: Final = 2.5  # standard deviations of the fall either side: from 99 % of it to 1 %
_PREDICTED: Final = 25  # points of a predicted curve


def calibrations(plan: Plan) -> dict[str, Procedure]:
    """How the deployable families fared, by name: nothing new is measured for it."""

    def calibrated(family: Family) -> Procedure:
        return lambda ask: plan.gauge(ask).measure(family)

    return {
        family.name: calibrated(family)
        for family in plan.families
        if family.deployable and family.seen != "nothing"
    }


def curve_procedures(meter: Meter, measured: Mapping[str, Measured]) -> dict[str, Procedure]:
    """The points: no protection first, then each mechanism from weak to strong.

    At the strength that was found, and of a bare sum, the calibration's own counts are taken.
    """
    wanted: dict[str, Procedure] = {"curve of none": meter.unprotected}
    for family in meter.plan.families:
        name, found = f"curve of {family.name}", measured.get(family.name)
        if family.seen == "nothing":
            wanted[name] = meter.point(family, 0.0)
        elif found is None:
            continue
        elif family.knob is None and found.counts is not None:
            wanted[name] = meter.tested(family, UNPROTECTED, found.counts)
        else:
            low, high = family.domain
            points = {
                x: meter.point(family, (x - low) / (high - low))
                for x in grid(family, found.calibration, meter.plan.effort.strengths)
            }
            x = found.calibration.x
            if points and x is not None and found.counts is not None:
                points[x] = meter.tested(family, x, found.counts)
            wanted |= {f"{name} at {family.parameter(x):.3g}": points[x] for x in sorted(points)}
    return wanted


def grid(family: Family, calibration: Calibration, count: int) -> tuple[float, ...]:
    """Strengths over the fall of the calibration's success curve, and over the strength found.

    None where there is nothing to tune: the mechanism is not needed, or has no strength.
    """
    curve = calibration.curve
    if curve is None or calibration.x == UNPROTECTED:
        return ()
    found = curve.mu if calibration.x is None else calibration.x
    low, high = family.domain
    first = max(low, min(found, curve.mu - _REACH * curve.sd))
    last = min(high, max(found, curve.mu + _REACH * curve.sd))
    if first >= last:  # recovery ends nowhere that the mechanism can reach
        first, last = low, high
    return tuple(np.linspace(first, last, count).tolist())


def predictions(plan: Plan, curves: Sequence[Evaluated]) -> tuple[Prediction, ...]:
    """Fisher's prediction over the range of each curve of noise; none where it does not apply."""
    made: list[Prediction] = []
    for family in plan.families:
        variances = [
            each.parameter
            for each in curves
            if each.mechanism == family.name and each.parameter is not None
        ]
        if family.knob != "variance" or not variances or not plan.setting.predicted[family.seen]:
            continue
        with one_thread():
            found = fisher(plan.scenario, family.seen, plan.adversary, seed=plan.seed)
        clients = clients_in(family.seen, plan.scenario, plan.adversary)
        for variance in np.geomspace(min(variances), max(variances), _PREDICTED).tolist():
            success = found.success(variance / clients, plan.guess.criterion.threshold)
            leakage = bernoulli_leakage(success)
            made.append(Prediction(family.name, variance, success, leakage))
    return tuple(made)
