"""The paper's half of randomization: the TV of Gaussian noise, bounded and in the limit."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trilemma.beliefs.gaussians import isotropic_tv, large_m_tv, large_m_tv_inverse, upper_tv
from trilemma.errors import InvalidInput
from trilemma.paper_framework.mechanisms.base import Form, MechanismModel, ParameterValue, Strength
from trilemma.paper_framework.profile import Profile
from trilemma.protection.parameter import Parameter

__all__ = ["RandomizationModel"]


class RandomizationModel(MechanismModel):
    """TV of Gaussian noise (Theorem optimal_parameter_randomization); dose = s², A = √(Σ σᵢ⁻⁴).

    printed, corrected: the paper's lower bound TV ≥ min{1, s²A}/100, so s²* = 100 q/A;
    tight: the large-m TV = erf(s²A/4), so s²* = 4 erf⁻¹(q)/A.

    >>> model, profile = RandomizationModel(), Profile(100, sigma=1.0)
    >>> round(model.value(model.inverse(0.005, profile)).value, 12)
    0.05
    """

    name: ClassVar[str] = "randomization"
    parameter: ClassVar[Parameter] = Parameter(
        "σ_ε²", "variance of the Gaussian noise added to each coordinate", "larger"
    )

    def form(self, asked: Form) -> Form:
        return asked

    def largest_distortion(self, form: Form) -> float:
        return 1.0 if form == "tight" else 0.01

    def distortion(self, log_dose: float, profile: Profile, form: Form = "corrected") -> float:
        scaled = log_dose + profile.log_precision
        if form == "tight":
            return large_m_tv(scaled)
        return 0.01 * math.exp(min(0.0, scaled))

    def inverse(self, tv: float, profile: Profile, form: Form = "corrected") -> Strength:
        limit = self.largest_distortion(form)
        if not (0 < tv < 1 and tv <= limit):
            raise InvalidInput(
                f"distortion must lie in (0, {limit:g}] (below 1) for this form, got {tv}."
            )
        scaled = large_m_tv_inverse(tv) if form == "tight" else math.log(100) + math.log(tv)
        return Strength(scaled - profile.log_precision)

    def distortion_limit(self, log_dose: float, profile: Profile) -> float:
        """Exact for one common σ; else the least of three upper bounds."""
        sigma = profile.require_sigma()
        if isinstance(sigma, np.ndarray):
            return upper_tv(np.exp(np.minimum(log_dose - 2 * np.log(sigma), 700.0)))
        return isotropic_tv(profile.parameters, log_dose - 2 * math.log(sigma))

    def value(self, strength: Strength) -> ParameterValue:
        return ParameterValue(strength.dose, strength.log_dose, strength.dose)

    def strength(self, log_value: float, profile: Profile) -> Strength:
        return Strength(log_value)

    def true_distortion(self, strength: Strength, profile: Profile) -> float:
        """The same: the noise is what the model says."""
        return self.distortion_limit(strength.log_dose, profile)

    def utility_bound(
        self, strength: Strength, profile: Profile, c4: float, form: Form, clients: int
    ) -> float:
        """(3/2) C₄ min{1, s²A} (Lemma F.1); corrected: at most C₄."""
        return c4 * self._lemma(strength, profile, form)

    def efficiency_bound(
        self, strength: Strength, profile: Profile, c5: float, form: Form, clients: int
    ) -> float:
        """(3/2) C₅ min{1, s²A} (Lemma F.2); corrected: at most C₅."""
        return c5 * self._lemma(strength, profile, form)

    def _lemma(self, strength: Strength, profile: Profile, form: Form) -> float:
        bound = 1.5 * math.exp(min(0.0, strength.log_dose + profile.log_precision))
        return bound if form == "printed" else min(1.0, bound)
