"""Algorithms 2 to 4 on a federation: C₁, ξ and C₂, by both readings of Algorithm 3."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from trilemma.game.recovering.fisher import predict
from trilemma.game.recovering.units import Measurement, observe_units
from trilemma.paper_framework.algorithm import estimated

if TYPE_CHECKING:
    from trilemma.game.recovering.recovery_setup import Prepared
    from trilemma.paper_framework.constants_from_counts import EstimatedConstants

__all__ = ["Estimated", "estimate"]

_MOST: Final = 512  # unknowns of one update up to which the prediction takes seconds
_PROBED: Final = 4


@dataclass(frozen=True)
class Estimated:
    """The paper's constants of a federation, and those by Algorithm 3's letter where asked for.

    `half_point` is the variance of noise that hides half of the records by Fisher's information.
    """

    headline: str
    constants: EstimatedConstants
    literal: EstimatedConstants | None
    half_point: float | None

    def as_json(self) -> dict[str, Any]:
        """The constants as plain values."""
        literal = {} if self.literal is None else {"literal": asdict(self.literal)}
        return {**asdict(self.constants), **literal, "predicted_half_point": self.half_point}


def estimate(prepared: Prepared, *, literal: bool, **how: Any) -> Estimated:
    """The constants of what is prepared; `how` as in `Prepared.measured`."""
    scenario, guess = prepared.scenario, prepared.guess
    _, control = prepared.measured(**how)
    constants, reading = estimated(scenario, guess, control), None
    if literal:
        _, by_the_letter = prepared.measured(literal=True, **how)
        reading = estimated(scenario, guess, by_the_letter)
    return Estimated(prepared.headline(), constants, reading, _half_point(prepared))


def _half_point(prepared: Prepared) -> float | None:
    """The variance at which Fisher's information predicts that half are recovered.

    None where it does not apply (no PSNR, more unknowns than equations) or would take minutes.
    """
    scenario, criterion = prepared.scenario, prepared.guess.criterion
    record = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
    unknowns = record * scenario.local_training.unit_size
    if criterion.metric != "psnr" or unknowns > min(_MOST, scenario.task.layout.size):
        return None
    asked = Measurement(seed=prepared.measurement.seed)
    seen = observe_units(scenario, asked, range(_PROBED), protected=False)
    variance = predict(seen.views, seen.records.inputs, seen.records.labels).half_point(
        criterion.threshold
    )
    return variance if math.isfinite(variance) and variance > 0 else None
