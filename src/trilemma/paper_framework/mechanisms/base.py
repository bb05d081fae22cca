"""The paper's model of a mechanism: how its parameter γ distorts an update.

Every mechanism has a neutral γ that distorts nothing: s² = 0, n = √(2δ), r = δ, ρ = 1. A model
measures γ by its *dose*, the distance from neutral on a scale of its own, so that a larger dose
always protects more (the paper's ρ runs the other way, departure E12), and keeps log dose, which
stays exact where γ itself would round to neutral (m = 10⁹).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from trilemma.paper_framework.profile import Profile, same_size
from trilemma.protection.parameter import Parameter
from trilemma.quantities import between

__all__ = [
    "BoxModel",
    "Form",
    "MechanismModel",
    "ParameterValue",
    "Strength",
    "mean_distortion",
    "strength_for",
]

Form = Literal["printed", "corrected", "tight"]
_FAINTEST = -745.0  # exp() of anything less is zero
_LARGEST = 709.0  # exp() of anything more is beyond all floats


@dataclass(frozen=True)
class Strength:
    """A parameter value as the log of its dose, counted from the neutral value e^anchor."""

    log_dose: float
    anchor: float = 0.0

    @property
    def dose(self) -> float:
        """The dose itself; 0 protects nothing."""
        return _exp(self.log_dose)


@dataclass(frozen=True)
class ParameterValue:
    """γ for people: its value, ln of it, its distance from neutral, and 1 - ρ for compression.

    The distance |γ - neutral| is exact where γ itself rounds to neutral.
    """

    value: float
    log_value: float
    distance: float
    strength: float | None = None


class MechanismModel(ABC):
    """Distortion TV(P^O ‖ P^S) as a function of γ, its inverse, and the bounds that follow.

    All methods are pure. `profile` describes one client's unprotected update.
    """

    name: ClassVar[str]
    parameter: ClassVar[Parameter]

    def form(self, asked: Form) -> Form:
        """The form in force: a model without a tight form answers with its corrected one."""
        return "corrected" if asked == "tight" else asked

    def anchor(self, profile: Profile) -> float:
        """ln of the neutral value for this client."""
        return 0.0

    @abstractmethod
    def distortion(self, log_dose: float, profile: Profile, form: Form = "corrected") -> float:
        """The distortion that the paper's metric uses for this dose, in [0, 1]."""

    @abstractmethod
    def inverse(self, tv: float, profile: Profile, form: Form = "corrected") -> Strength:
        """The paper's optimum γ*: the strength at which the distortion is `tv`, 0 < tv < 1.

        As `printed` it may miss that distortion (departure E8).
        """

    @abstractmethod
    def distortion_limit(self, log_dose: float, profile: Profile) -> float:
        """TV in the paper's model, or an upper bound of it: what a proof may use (E20)."""

    @abstractmethod
    def true_distortion(self, strength: Strength, profile: Profile) -> float:
        """TV of the mechanism as it runs, for an update that is distributed as assumed."""

    @abstractmethod
    def value(self, strength: Strength) -> ParameterValue:
        """The parameter itself."""

    @abstractmethod
    def strength(self, log_value: float, profile: Profile) -> Strength:
        """The strength of a parameter, given as ln γ: the inverse of `value`."""

    @abstractmethod
    def utility_bound(
        self, strength: Strength, profile: Profile, c4: float, form: Form, clients: int
    ) -> float:
        """The paper's bound of the utility loss for utilities in [0, C₄]."""

    @abstractmethod
    def efficiency_bound(
        self, strength: Strength, profile: Profile, c5: float, form: Form, clients: int
    ) -> float:
        """The paper's bound of the efficiency reduction for costs in [0, C₅]."""

    def reached(self, tv: float, form: Form) -> float:
        """The distortion that the form's optimum for `tv` really has."""
        return tv

    def largest_distortion(self, form: Form) -> float:
        """The distortion that the form can express at most; q must stay below it, or meet it."""
        return 1.0

    def dose_of(self, strength: Strength, profile: Profile) -> float:
        """log dose of a common γ for this client, whose neutral value may be another.

        A client whose neutral value lies beyond γ is not distorted as far as the paper's bound
        says (its box is wider than the mask): dose 0.
        """
        shift = strength.anchor - self.anchor(profile)
        if shift == 0:
            return strength.log_dose
        dose = strength.dose + shift
        return math.log(dose) if dose > 0 else -math.inf


class BoxModel(MechanismModel):
    """A model with TV = 1 - e^{-rate·m·dose}: uniform on a box, against a wider or a thinned one.

    Paillier, secret sharing and compression share this form; dose is |ln(γ/neutral)|.
    """

    rate: ClassVar[float] = 1.0
    direction: ClassVar[Literal[1, -1]] = 1  # in which ln γ leaves neutral
    swapped_when_printed: ClassVar[bool] = False

    def distortion(self, log_dose: float, profile: Profile, form: Form = "corrected") -> float:
        return -math.expm1(-math.exp(min(709.0, log_dose + self._log_scale(profile))))

    def inverse(self, tv: float, profile: Profile, form: Form = "corrected") -> Strength:
        between("distortion", tv)
        printed = form == "printed" and self.swapped_when_printed
        exponent = -math.log(tv) if printed else -math.log1p(-tv)
        return Strength(math.log(exponent) - self._log_scale(profile), self.anchor(profile))

    def distortion_limit(self, log_dose: float, profile: Profile) -> float:
        """The same TV, which the paper's model takes for exact."""
        return self.distortion(log_dose, profile)

    def value(self, strength: Strength) -> ParameterValue:
        """γ = neutral · e^dose."""
        log_value = strength.anchor + strength.dose
        far = math.expm1(strength.dose) if strength.dose < _LARGEST else math.inf
        return ParameterValue(_exp(log_value), log_value, math.exp(strength.anchor) * far)

    def strength(self, log_value: float, profile: Profile) -> Strength:
        anchor = self.anchor(profile)
        dose = self.direction * (log_value - anchor)
        return Strength(math.log(dose) if dose > 0 else -math.inf, anchor)

    def reached(self, tv: float, form: Form) -> float:
        """1 - tv where the printed optimum lacks its "1 -" (departure E8)."""
        return 1 - tv if form == "printed" and self.swapped_when_printed else tv

    def efficiency_bound(
        self, strength: Strength, profile: Profile, c5: float, form: Form, clients: int
    ) -> float:
        """C₅·TV (Lemma eps_e_upper_bound)."""
        return c5 * self.distortion(self.dose_of(strength, profile), profile)

    def _log_scale(self, profile: Profile) -> float:
        return math.log(self.rate) + math.log(profile.parameters)


def mean_distortion(
    model: MechanismModel,
    strength: Strength,
    profiles: Sequence[Profile],
    form: Form = "corrected",
) -> float:
    """(1/K) Σ_k TV_k(γ), the distortion of a federation whose clients share γ."""
    return math.fsum(
        model.distortion(model.dose_of(strength, profile), profile, form) for profile in profiles
    ) / len(profiles)


def strength_for(
    model: MechanismModel, tv: float, profiles: Sequence[Profile], form: Form = "corrected"
) -> Strength:
    """γ* for several clients: the root of mean_k TV_k(γ) = tv; the closed form if they agree."""
    from scipy.optimize import brentq  # heavy: the command line must start without it

    same_size(profiles)
    single = [model.inverse(tv, profile, form) for profile in profiles]
    if len(set(single)) == 1:
        return single[0]
    target = model.reached(tv, form)
    # TV_k starts to rise at client k's own neutral value. The root is sought in doses counted
    # from the last neutral value at which the mean is still short of the target: near it, γ
    # minus that value may be 1e-9 of γ.
    anchors = sorted({model.anchor(profile) for profile in profiles})
    start = max(
        (
            anchor
            for anchor in anchors
            if mean_distortion(model, Strength(-math.inf, anchor), profiles, form) < target
        ),
        default=anchors[0],
    )

    def shortfall(log_dose: float) -> float:
        return mean_distortion(model, Strength(log_dose, start), profiles, form) - target

    span = anchors[-1] - start
    reach = max(math.log(item.dose + span) for item in single) + 1.0
    root = brentq(shortfall, _FAINTEST, reach, xtol=1e-13, rtol=1e-14)
    return Strength(float(root), start)


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < _LARGEST else math.inf
