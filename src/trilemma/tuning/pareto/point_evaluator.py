"""Measures points, all of them alike: the same games at every strength, paired trainings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilemma.errors import InvalidInput
from trilemma.execution.scheduler import together
from trilemma.game.job_results import Diverged
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.calibration.outcomes import UNPROTECTED
from trilemma.tuning.families.family import KEY_STATEMENT
from trilemma.tuning.results.points import Point

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.costs import Costs
    from trilemma.tuning.families.family import Family, Seen
    from trilemma.tuning.families.game_counts import Counts
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["PointEvaluator"]

_CHUNK: Final = 32  # games of one task: two of 16 cost a third more

_Observed = tuple["Seen", Protection]


@dataclass(frozen=True)
class PointEvaluator:
    """`units` games at each point, by the leading attack, and trainings from `seeds`."""

    plan: Plan
    units: int
    seeds: int

    def unprotected(self) -> Procedure[Point]:
        """The point that every federation starts from: no protection, no cost."""
        seen: Seen = "sum" if self.plan.request.adversary is Adversary.CLIENT else "message"
        counts = yield from self._counts([(seen, Protection())], self.plan.claim.rounds)
        point = Point("none", None, protection=Protection().describe())
        return (yield from self._priced(self._counted(point, counts), Protection()))

    def point(self, family: Family, place: float) -> Procedure[Point]:
        """At a place in [0, 1] of the family's domain, which is a log₁₀ scale."""
        x = family.at(place) if family.mechanism else UNPROTECTED
        blank = _blank(family, x, place)
        try:
            protection = family.protection(x)
        except InvalidInput as error:  # such as noise below the step of a transport's grid
            return replace(blank, note=f"Cannot be run: {error}")
        if family.seen == "nothing":
            bits = getattr(protection.transport, "bits", "?")
            note = KEY_STATEMENT.format(bits=bits)
            blank = replace(blank, basis="cryptographic", note=note)
        else:
            rounds = self.plan.claim.rounds if family.whole_training else 1
            counts = yield from self._counts(self.observed(family, x), rounds)
            blank = self._counted(blank, counts)
        return (yield from self._priced(blank, protection))

    def tested(self, family: Family, candidate: Candidate) -> Point:
        """The point at the strength that was found, by the fresh games that it is shown by."""
        x, place = UNPROTECTED, 0.0
        if candidate.strength is not None:
            x = family.decades(candidate.strength)
            place = family.place(x)
        tested = replace(
            _blank(family, x, place),
            protection=candidate.protection,
            leakage=candidate.leakage,
            units=candidate.fresh,
            recovered=candidate.fresh_right,
        )
        return tested if candidate.costs is None else _costing(tested, candidate.costs)

    def observed(self, family: Family, x: float) -> list[_Observed]:
        """What the adversary reads; masks cancel in the sum, which the server reads too."""
        seen: list[_Observed] = [(family.seen, family.attacked(x, self.plan.request.adversary))]
        if not family.deployable and self.plan.setting.clients > 1:
            seen.append(("sum", Protection(transport=SecretSharing())))
        return seen

    def _counts(self, seen: list[_Observed], rounds: int) -> Procedure[Counts]:
        """The same games at every strength, so that points differ by the protection alone."""
        calibrator = self.plan.calibrator()
        counted = [
            calibrator.count(
                f"front of the {what}",
                shown,
                self.units,
                attacks=(self.plan.suite.lead,),
                rounds=rounds,
                chunk=_CHUNK,
            )
            for what, shown in seen
        ]
        found = yield from together(counted)
        return max(found, key=lambda counts: counts.successes)

    def _counted(self, point: Point, counts: Counts) -> Point:
        found, units = counts.successes, counts.units
        return replace(
            point,
            leakage=self.plan.leakage(found, units),
            units=units,
            recovered=found,
            by_attack=counts.by_attack,
        )

    def _priced(self, point: Point, protection: Protection) -> Procedure[Point]:
        point = replace(point, protection=protection.describe())
        try:
            costs, _ = yield from self.plan.at_most(self.seeds).price(protection)
        except Diverged as error:
            return replace(point, note=f"{point.note} {error}".strip())
        return _costing(point, costs)


def _costing(point: Point, costs: Costs) -> Point:
    return replace(
        point,
        utility_loss=costs.utility_loss,
        efficiency_reduction=costs.efficiency_reduction,
        metric=costs.protected_metric,
        bits=costs.protected.bits,
        seconds=costs.protected.seconds,
    )


def _blank(family: Family, x: float, place: float) -> Point:
    return Point(
        family=family.name,
        place=place if family.mechanism else None,
        symbol=family.symbol,
        strength=family.strength(x),
        note="" if family.deployable else "Not to be deployed: use secret-sharing.",
    )
