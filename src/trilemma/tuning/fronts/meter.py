"""Measures points, all of them alike: the same units at every strength, paired trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import client_leakage
from trilemma.estimation.tasks import Diverged
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.calibrating.outcomes import UNPROTECTED
from trilemma.tuning.choosing.candidates import KEY_STATEMENT, SYMBOLS
from trilemma.tuning.fronts.points import Evaluated

if TYPE_CHECKING:
    from trilemma.tuning.calibrating.gauge import Counts
    from trilemma.tuning.choosing.families import Family, Seen
    from trilemma.tuning.choosing.pricing import Pricing
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Ask

__all__ = ["Meter"]

_CHUNK: Final = 32  # units of one task: two of 16 cost a third more

Sight = tuple["Seen", Protection]


@dataclass(frozen=True)
class Meter:
    """`least` units or a few more, as many of each client, and trainings from `seeds` seeds.

    `pictures` are kept of the first units, where the scenario shows records.
    """

    plan: Plan
    least: int
    seeds: int
    pictures: int = 0

    @property
    def units(self) -> int:
        """Units that are attacked at each point."""
        clients = self.plan.setting.clients
        return -(-self.least // clients) * clients

    @property
    def pricing(self) -> Pricing:
        """How trainings are compared: all points from the same seeds."""
        return replace(self.plan.pricing, seeds=self.plan.pricing.seeds[: self.seeds])

    @staticmethod
    def stream(seen: Seen) -> str:
        """The units that are attacked wherever this is what the adversary sees."""
        return f"front of the {seen}"

    def unprotected(self, ask: Ask) -> Evaluated:
        """The point that every federation starts from: no protection, no cost."""
        seen: Seen = "sum" if self.plan.adversary is Adversary.CLIENT else "message"
        counts = self._counts(ask, [(seen, Protection())])
        point = Evaluated("none", None, protection=Protection().describe())
        return self._priced(self._counted(point, counts), ask, Protection())

    def point(self, family: Family, strength: float) -> Callable[[Ask], Evaluated]:
        """At a strength in [0, 1] of the family's domain, which is a log₁₀ scale."""
        x = family.at(strength) if family.knob else UNPROTECTED

        def measure(ask: Ask) -> Evaluated:
            blank = _blank(family, x, strength)
            try:
                protection = family.protection(x)
            except InvalidInput as error:  # such as noise below the step of a transport's grid
                return replace(blank, note=f"Cannot be run: {error}")
            if family.seen == "nothing":
                bits = getattr(protection.transport, "bits", "?")
                note = KEY_STATEMENT.format(bits=bits)
                blank = replace(blank, basis="cryptographic", note=note)
            else:
                blank = self._counted(blank, self._counts(ask, self.sights(family, x)))
            return self._priced(blank, ask, protection, weighted=_weighted(family))

        return measure

    def tested(self, family: Family, x: float, counts: Counts) -> Callable[[Ask], Evaluated]:
        """The point at x by units that a test has counted already."""
        low, high = family.domain
        point = self._counted(_blank(family, x, (x - low) / (high - low)), counts)
        return lambda ask: self._priced(
            point, ask, family.protection(x), weighted=_weighted(family)
        )

    def sights(self, family: Family, x: float) -> list[Sight]:
        """What the adversary reads; masks cancel in the sum, which the server reads too."""
        seen: list[Sight] = [(family.seen, family.attacked(x, self.plan.adversary))]
        if family.knob == "bound" and self.plan.setting.clients > 1:
            seen.append(("sum", Protection(transport=SecretSharing())))
        return seen

    def _counts(self, ask: Ask, seen: Sequence[Sight]) -> Counts:
        """The same units at every strength, so that points differ by the protection alone."""
        gauge = self.plan.gauge(ask)
        gauge.control()
        found = [
            gauge.count(self.stream(what), shown, self.units, chunk=_CHUNK, pictures=self.pictures)
            for what, shown in seen
        ]
        return max(found, key=lambda counts: counts.successes)

    def _counted(self, point: Evaluated, counts: Counts) -> Evaluated:
        found, units = counts.successes, counts.units
        return replace(
            point,
            leakage=client_leakage(found, units, confidence=self.plan.confidence),
            units=units,
            recovered=found,
            by_attack=counts.by_attack,
        )

    def _priced(
        self, point: Evaluated, ask: Ask, protection: Protection, *, weighted: bool = True
    ) -> Evaluated:
        point = replace(point, protection=protection.describe())
        try:
            costs, _ = self.pricing.price(ask, protection, weighted=weighted)
        except Diverged as error:
            return replace(point, note=f"{point.note} {error}".strip())
        return replace(
            point,
            utility_loss=costs.utility_loss,
            efficiency_reduction=costs.efficiency_reduction,
            metric=costs.protected_metric,
            bits=costs.protected.bits,
            seconds=costs.protected.seconds,
        )


def _blank(family: Family, x: float, strength: float) -> Evaluated:
    return Evaluated(
        mechanism=family.name,
        strength=strength if family.knob else None,
        symbol=SYMBOLS.get(family.knob or ""),
        parameter=family.parameter(x),
        note="" if family.deployable else "Not to be deployed: use secret-sharing.",
    )


def _weighted(family: Family) -> bool:
    return family.setting.equal_weights or family.deployable
