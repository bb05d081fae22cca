"""Deep leakage from gradients: match the update by L-BFGS over inputs, and labels if unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from trilemma.attacks.labels import infer_labels
from trilemma.attacks.matching import (
    Candidates,
    Precision,
    ViewTensors,
    invert,
    random_starts,
)

if TYPE_CHECKING:
    import torch

    from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View

__all__ = ["DLG", "IDLG"]

_NOISY_HISTORY: Final = 10  # noise blurs what older pairs tell: 20 of 128 digits, with 20 pairs 19


@dataclass(frozen=True)
class DLG:
    """Zhu et al. (2019): inputs and soft labels together, by matching the update.

    The fields are the effort: evaluations a restart; evaluations up to which the best restart goes
    on where coordinates are missing (compression), since few equations are solved slowly; pairs of
    L-BFGS memory (at most 10 under noise), units evaluated at once (of large models fewer),
    relative matching loss at which a unit is solved, precision, and where restarts begin:
    "middle", near the middle of the range with undecided labels, or "normal", standard normal as
    published.
    Middle starts fall into fewer local minima (FedAvg, 5 steps: 40 of 40 digits from one start
    each, normal 19).
    """

    iterations: int = 300
    masked_iterations: int = 3000
    history: int = 60
    slots: int = 64
    tolerance: float = 1e-8
    precision: Precision = "single"
    start: Literal["middle", "normal"] = "middle"

    name: ClassVar[str] = "dlg"
    knows: ClassVar[KnowledgeLevel] = "nothing"
    searches: ClassVar[bool] = True

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = ViewTensors.of(views, self.precision)
        return self._match(units, None, restarts, seed)

    def _match(
        self, units: ViewTensors, labels: torch.Tensor | None, restarts: int, seed: int
    ) -> Reconstructions:
        candidates = Candidates.of(units.view, joint=labels is None)
        starts = random_starts(units, candidates, self.name, restarts, seed)
        if self.start == "middle":
            starts = candidates.placed(starts, 0.1)
            starts[..., candidates.pixels :] *= 0.1
        noisy = bool((units.noise > 0).any())
        return invert(
            units,
            candidates,
            starts,
            labels,
            iterations=self.iterations,
            further=max(0, self.masked_iterations - self.iterations) if units.masked else 0,
            history=min(self.history, _NOISY_HISTORY) if noisy else self.history,
            slots=self.slots,
            tolerance=self.tolerance,
        )


@dataclass(frozen=True)
class IDLG(DLG):
    """Zhao et al. (2020): labels inferred from the last layer first, then inputs alone.

    Where the update does not tell the labels (regression, unread or scaled last layer), they are
    found jointly as in DLG.
    """

    name: ClassVar[str] = "idlg"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = ViewTensors.of(views, self.precision)
        return self._match(units, infer_labels(units, seed), restarts, seed)
