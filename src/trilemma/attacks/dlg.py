"""Deep leakage from gradients: match the update by L-BFGS over inputs and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trilemma.attacks.base import Reconstructions, View
from trilemma.attacks.gradient_matching import (
    Candidates,
    Precision,
    Units,
    invert,
    random_starts,
)

__all__ = ["DLG"]


@dataclass(frozen=True)
class DLG:
    """Zhu et al. (2019): inputs and soft labels together, from a standard normal start.

    The fields are the effort: evaluations a restart, pairs of L-BFGS memory, units evaluated at
    once, relative matching loss at which a unit is solved, and precision ("auto": double under
    noise, single elsewhere).
    """

    iterations: int = 300
    history: int = 60
    slots: int = 64
    tolerance: float = 1e-9
    precision: Precision = "auto"

    name = "dlg"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = Units.of(views, self.precision)
        view = units.view
        candidates = Candidates(view.input_spec, view.records, view.task.classes, joint=True)
        starts = random_starts(units, candidates, self.name, restarts, seed)
        return invert(
            units,
            candidates,
            starts,
            None,
            iterations=self.iterations,
            history=self.history,
            slots=self.slots,
            tolerance=self.tolerance,
        )
