"""Calibrations against simulated attackers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

from tests.tuning.simulating import answered

from trilemma.tuning.calibration.calibrate import calibrate
from trilemma.tuning.calibration.outcomes import (
    Calibration,
    Control,
    Trial,
)

ALPHA = 0.05


P_MAX = (0.02, 0.078, 0.286, 0.559)  # leakage .1, .2, .4, .6


WORKS = Control(24, 24)


AttackUnits = Callable[[float, int, str, int], int]


def calibrated(attack: AttackUnits, *arguments: Any, **settings: Any) -> Calibration:
    """A calibration whose trials an attack plays."""

    def won(trials: Sequence[Trial]) -> list[int]:
        return [attack(*astuple(trial)) for trial in trials]

    return answered(calibrate(*arguments, **settings), won)
