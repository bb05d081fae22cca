"""The paper's half of Paillier encryption: ciphertexts taken as uniform."""

from __future__ import annotations

import math
from typing import ClassVar

from trilemma.paper_framework.mechanisms.base import BoxModel, Form, Strength
from trilemma.paper_framework.profile import Profile
from trilemma.protection.parameter import Parameter

__all__ = ["PaillierModel"]


class PaillierModel(BoxModel):
    """TV = 1 - (2δ/n²)^m, ciphertexts taken as uniform on [0, n² - 1]^m (Theorem optimal_he).

    corrected: n* = √(2δ) (1 - q)^{-1/(2m)}; printed: √(2δ) q^{-1/(2m)}, which lacks "1 -" (E8).
    dose = ln(n/√(2δ)). The optimum is a modulus of about √(2δ), which no one should use: the
    real parameter of Paillier is its key length.

    >>> model, profile = PaillierModel(), Profile(10**9, delta=0.5)
    >>> model.value(model.inverse(0.3, profile)).log_value
    1.78...e-10
    """

    name: ClassVar[str] = "paillier"
    parameter: ClassVar[Parameter] = Parameter(
        "n", "modulus of the ciphertexts (a key in real use has 2,048 bits or more)", "larger"
    )
    rate: ClassVar[float] = 2.0
    swapped_when_printed: ClassVar[bool] = True

    def anchor(self, profile: Profile) -> float:
        return 0.5 * math.log(2 * profile.require_delta(self.name))

    def true_distortion(self, strength: Strength, profile: Profile) -> float:
        """1: a plaintext is a real number, a ciphertext a whole one."""
        return 1.0

    def utility_bound(
        self, strength: Strength, profile: Profile, c4: float, form: Form, clients: int
    ) -> float:
        """0: decryption returns the sum unchanged."""
        return 0.0
