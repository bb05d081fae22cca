"""The paper's half of compression: TV = 1 - ρ^m, and what its 1/ρ rescaling makes of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.paper_framework.mechanisms.base import BoxModel, Form, ParameterValue, Strength
from trilemma.paper_framework.profile import Profile
from trilemma.protection.parameter import Parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["CompressionModel", "per_coordinate_distortion", "rescaled_distortion"]


class CompressionModel(BoxModel):
    """TV = 1 - ρ^m, so ρ* = (1 - q)^{1/m} (Theorem opt_parameter_compression); dose = -ln ρ.

    Holds for kept coordinates sent as they are; the paper's own 1/ρ rescaling breaks it (E11).

    >>> model, profile = CompressionModel(), Profile(10**9)
    >>> model.value(model.inverse(0.5, profile)).strength
    6.93...e-10
    """

    name: ClassVar[str] = "compression"
    parameter: ClassVar[Parameter] = Parameter(
        "ρ", "probability of keeping a coordinate", "smaller", (0.0, 1.0)
    )
    direction: ClassVar[Literal[1, -1]] = -1

    def value(self, strength: Strength) -> ParameterValue:
        """ρ = e^-dose."""
        log_value = -strength.dose
        dropped = -math.expm1(log_value)
        return ParameterValue(math.exp(log_value), log_value, dropped, dropped)

    def true_distortion(self, strength: Strength, profile: Profile) -> float:
        """With the paper's 1/ρ, of a box that holds 0; of any other box TV is larger (E11)."""
        return rescaled_distortion(strength.log_dose, profile.parameters)

    def utility_bound(
        self, strength: Strength, profile: Profile, c4: float, form: Form, clients: int
    ) -> float:
        """printed: C₄ (1 - ρ^m) (Lemma I.1); corrected: C₄ (1 - ρ^{Km}) (E21)."""
        drawn = 1 if form == "printed" else clients
        return c4 * self.distortion(strength.log_dose + math.log(drawn), profile)


def per_coordinate_distortion(dropped: ArrayLike) -> float:
    """TV = 1 - Π ρᵢ for a probability of its own for each coordinate, given as 1 - ρᵢ.

    >>> per_coordinate_distortion([0.5, 0.0, 0.5])
    0.75
    """
    values = np.asarray(dropped, dtype=np.float64)
    if values.size == 0 or not ((values >= 0) & (values <= 1)).all():
        raise InvalidInput(
            f"each 1 - ρᵢ (probability of dropping coordinate i) must lie in [0, 1], got "
            f"{values.tolist()!r:.80}."
        )
    if (values == 1).any():
        return 1.0
    return -math.expm1(float(np.log1p(-values).sum()))


def rescaled_distortion(log_dose: float, parameters: int) -> float:
    """TV with the paper's 1/ρ rescaling of an update centred at 0: 1 - ρ^{2m} (E11).

    A kept coordinate, uniform on [-δ, δ], becomes uniform on [-δ/ρ, δ/ρ]: its density falls by ρ
    once more.
    """
    return -math.expm1(-2 * parameters * math.exp(log_dose))
