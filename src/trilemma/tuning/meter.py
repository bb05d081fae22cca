"""Measures points, all of them alike: the same units at every strength, paired trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import Estimate, client_leakage
from trilemma.mechanisms.protection import Protection
from trilemma.mechanisms.secret_sharing.transport import SecretSharing
from trilemma.observations import Adversary
from trilemma.tuning.candidates import KEY_STATEMENT, SYMBOLS
from trilemma.tuning.measured import Counts, Gauge
from trilemma.tuning.outcomes import UNPROTECTED
from trilemma.tuning.points import Evaluated
from trilemma.tuning.tasks import Diverged

if TYPE_CHECKING:
    from trilemma.tuning.choice import Pricing
    from trilemma.tuning.families import Family, Setting
    from trilemma.tuning.replay import Ask
    from trilemma.tuning.suite import Suite

__all__ = ["Meter"]


@dataclass(frozen=True)
class Meter:
    """Measures points, all of them alike; `each` units of every client."""

    suite: Suite
    adversary: Adversary
    setting: Setting
    pricing: Pricing
    each: int

    def unprotected(self, ask: Ask) -> Evaluated:
        """The point that every federation starts from: no protection, no cost."""
        seen = "sum" if self.adversary is Adversary.CLIENT else "message"
        counts = self._counts(ask, [(seen, Protection())])
        zero = Estimate(0.0, 0.0, 0.0)
        return Evaluated(
            mechanism="none",
            strength=None,
            protection=Protection().describe(),
            leakage=self._leakage(counts),
            units=counts.units,
            recovered=counts.successes,
            utility_loss=zero,
            efficiency_reduction=zero,
        )

    def point(self, family: Family, strength: float) -> Callable[[Ask], Evaluated]:
        """x = low + strength · (high - low) of the family's domain, which is a log₁₀ scale."""
        low, high = family.domain
        x = low + strength * (high - low) if family.knob else UNPROTECTED

        def measure(ask: Ask) -> Evaluated:
            blank = Evaluated(
                mechanism=family.name,
                strength=strength if family.knob else None,
                symbol=SYMBOLS.get(family.knob or ""),
                parameter=family.parameter(x),
                note="" if family.deployable else "Not to be deployed: use secret-sharing.",
            )
            try:
                protection = family.protection(x)
            except InvalidInput as error:  # such as noise below the step of a transport's grid
                return replace(blank, note=f"Cannot be run: {error}")
            return self._priced(self._attacked(ask, blank, family, x), ask, family, protection)

        return measure

    def _attacked(self, ask: Ask, blank: Evaluated, family: Family, x: float) -> Evaluated:
        if family.seen == "nothing":
            return replace(blank, basis="cryptographic")
        counts = self._counts(ask, self._seen(family, x))
        return replace(
            blank,
            leakage=self._leakage(counts),
            units=counts.units,
            recovered=counts.successes,
        )

    def _priced(
        self, point: Evaluated, ask: Ask, family: Family, protection: Protection
    ) -> Evaluated:
        point = replace(point, protection=protection.describe())
        if point.basis == "cryptographic":
            bits = getattr(protection.transport, "bits", "?")
            point = replace(point, note=KEY_STATEMENT.format(bits=bits))
        try:
            weighted = family.setting.equal_weights or family.deployable
            costs, _ = self.pricing.price(ask, protection, weighted=weighted)
        except Diverged as error:
            return replace(point, note=f"{point.note} {error}".strip())
        return replace(
            point,
            utility_loss=costs.utility_loss,
            efficiency_reduction=costs.efficiency_reduction,
        )

    def _seen(self, family: Family, x: float) -> list[tuple[str, Protection]]:
        """What the adversary reads; masks cancel in the sum, which the server reads too."""
        seen: list[tuple[str, Protection]] = [(family.seen, family.attacked(x, self.adversary))]
        if family.knob == "bound" and self.setting.clients > 1:
            seen.append(("sum", Protection(transport=SecretSharing())))
        return seen

    def _counts(self, ask: Ask, seen: Sequence[tuple[str, Protection]]) -> Counts:
        """The same units at every strength, so that points differ by the protection alone."""
        gauge = Gauge(
            ask,
            self.suite,
            self.adversary,
            self.setting.clients,
            p_max=1.0,
            level=1 - self.pricing.confidence,
        )
        gauge.control()
        units = self.each * self.setting.clients
        found = [gauge.count(f"front of the {what}", shown, units) for what, shown in seen]
        return max(found, key=lambda counts: counts.successes)

    def _leakage(self, counts: Counts) -> Estimate:
        return client_leakage(counts.successes, counts.units, confidence=self.pricing.confidence)
