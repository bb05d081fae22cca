"""How much noise stands against one record: z, from variance, weights, survivors and helpers.

Each record's gradient is clipped to C_r before the mean over a fixed denominator S, so one record
of client k moves the weighted sum by at most w_k C_r / S_k. The noise that hides it is that of the
honest survivors alone:

    z_k = S_k √(v Σ over honest survivors j of w_j²) / (w_k C_r),

least over the sets of survivors that the threshold allows: k itself and the t - c - 1 others of
least weight, where c survivors help the curious party and take their own noise out (c = 1 for a
curious client). A message seen by itself is a cohort of one: z = S √v / C_r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trilemma.errors import InvalidInput
from trilemma.quantities import positive

__all__ = ["Cohort"]


@dataclass(frozen=True)
class Cohort:
    """Clients whose noisy messages are summed: weights w [K], denominators S [K], and the rest.

    `threshold` is the least number of survivors with which a round ends, `helpers` the number of
    clients, at most, that share what they know with the curious party.

    >>> cohort = Cohort.equal(clients=10, denominator=4, record_clip=0.5, threshold=7, helpers=1)
    >>> round(cohort.variance_for(0.61), 6)
    0.000969
    """

    weights: tuple[float, ...]
    denominators: tuple[float, ...]
    record_clip: float
    threshold: int
    helpers: int = 0

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) != len(self.denominators):
            raise InvalidInput(
                f"a cohort needs one weight and one denominator a client, got "
                f"{len(self.weights)} and {len(self.denominators)}."
            )
        for name, values in (
            ("weights", self.weights),
            ("denominators", self.denominators),
            ("record_clip", (self.record_clip,)),
        ):
            if not all(math.isfinite(value) and value > 0 for value in values):
                raise InvalidInput(f"{name} must be positive and finite, got {values}.")
        if not 1 <= self.threshold <= len(self.weights):
            raise InvalidInput(
                f"threshold must lie between 1 and the {len(self.weights)} clients, got "
                f"{self.threshold}."
            )
        if not 0 <= self.helpers < self.threshold:
            raise InvalidInput(
                f"helpers must lie between 0 and threshold - 1 = {self.threshold - 1}, got "
                f"{self.helpers}; raise the threshold, so that honest noise is left."
            )

    @classmethod
    def equal(
        cls,
        *,
        clients: int,
        denominator: float,
        record_clip: float,
        threshold: int,
        helpers: int = 0,
    ) -> Cohort:
        """Clients of equal weight; then z = S √((t - c) v) / C_r."""
        return cls((1.0,) * clients, (denominator,) * clients, record_clip, threshold, helpers)

    @classmethod
    def alone(cls, *, denominator: float, record_clip: float) -> Cohort:
        return cls((1.0,), (denominator,), record_clip, threshold=1)

    def noise_multipliers(self, variance: float) -> tuple[float, ...]:
        """z [K] of each client, for the variance of every client's noise on a coordinate."""
        positive("variance", variance)
        powers = [w * w * variance for w in self.weights]
        found = []
        for k, (weight, denominator) in enumerate(
            zip(self.weights, self.denominators, strict=True)
        ):
            others = sorted(powers[:k] + powers[k + 1 :])[: self.threshold - self.helpers - 1]
            noise = math.sqrt(math.fsum([powers[k], *others]))
            found.append(denominator * noise / (weight * self.record_clip))
        return tuple(found)

    def variance_for(self, noise_multiplier: float) -> float:
        """The least common variance with which every client has at least this z.

        Equal weights: v = (z C_r / S)² / (t - c).
        """
        positive("noise_multiplier", noise_multiplier)
        variance = (noise_multiplier / min(self.noise_multipliers(1.0))) ** 2
        while min(self.noise_multipliers(variance)) < noise_multiplier:
            variance *= 1 + 1e-15
        return variance
