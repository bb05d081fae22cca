"""The paper's half of secret sharing: masks of real numbers, bounded by r."""

from __future__ import annotations

import math
from typing import ClassVar

from trilemma.paper_framework.mechanisms.base import BoxModel, Form, Strength
from trilemma.paper_framework.profile import Profile
from trilemma.protection.parameter import Parameter

__all__ = ["SecretSharingModel"]


class SecretSharingModel(BoxModel):
    """TV = 1 - (2δ/(b + r))^m with b = r, masks uniform on [-b, r] (Theorem optimal_ss).

    corrected: r* = δ (1 - q)^{-1/m}; printed: δ q^{-1/m}, which lacks "1 -" (E8).
    dose = ln(r/δ).

    >>> model, profile = SecretSharingModel(), Profile(2, delta=1.0)
    >>> model.value(model.inverse(0.75, profile)).value
    2.0
    """

    name: ClassVar[str] = "secret-sharing"
    parameter: ClassVar[Parameter] = Parameter("r", "bound of the random mask", "larger")
    swapped_when_printed: ClassVar[bool] = True

    def anchor(self, profile: Profile) -> float:
        return math.log(profile.require_delta(self.name))

    def true_distortion(self, strength: Strength, profile: Profile) -> float:
        """1 - (1 - t)^m, t = r/(4δ) up to r = 2δ, then 1 - δ/r: update plus a mask on [-r, r].

        t is the chance that the sum leaves the update's own interval, in which its density is
        nowhere above the update's. The paper takes the sum for uniform on [-r, r], so that t = 0
        at r = δ; it is 1/4 there.
        """
        log_ratio = strength.anchor + strength.dose - self.anchor(profile)  # ln r/δ
        narrow = log_ratio <= math.log(2)
        kept = math.log1p(-math.exp(log_ratio) / 4) if narrow else -log_ratio
        return -math.expm1(profile.parameters * kept)

    def utility_bound(
        self, strength: Strength, profile: Profile, c4: float, form: Form, clients: int
    ) -> float:
        """0: the masks cancel."""
        return 0.0

    def efficiency_bound(
        self, strength: Strength, profile: Profile, c5: float, form: Form, clients: int
    ) -> float:
        """C₅·TV; as printed K·m·log r, negative for r < 1 and a sum where ε_e is a mean (E13)."""
        if form == "printed":
            return clients * profile.parameters * self.value(strength).log_value
        return super().efficiency_bound(strength, profile, c5, form, clients)
