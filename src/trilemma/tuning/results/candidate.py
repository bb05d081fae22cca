"""What a tuning finds for a family: the strength found, what leaks there, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilemma.federation.deployment_terms import Deployment
from trilemma.game.costs import Costs
from trilemma.game.estimates import Estimate
from trilemma.tuning.calibration.outcomes import Tested
from trilemma.tuning.results.certificate import Certificate
from trilemma.tuning.results.documents import Share, Shares

__all__ = ["Basis", "Candidate"]

Basis = Literal["measured", "certified", "cryptographic"]


@dataclass(frozen=True)
class Candidate:
    """One family at the strength found for it.

    `leakage`, `success` (of the attack that picks right most often) and `worst_client` are
    pointwise intervals at the verdict's confidence: what is shown by the procedure as a whole is
    that the leakage is within the budget. `rounds` is what it was tested for; `worst_client` is
    over the clients with at least 20 games, and `pooled_clients` says how many have fewer.
    `deployment` is what must be run where that is not what was attacked, as for a certificate.
    `rank` 1 is the least objective, or sends the fewest bits of those `tied` with that: whose
    objective lies within its interval.
    """

    name: str
    basis: Basis
    feasible: bool
    deployable: bool
    statement: str
    rounds: int = 1
    protection: str | None = None
    symbol: str | None = None
    strength: float | None = None
    leakage: Shares | None = None
    success: Shares | None = None
    worst_client: Shares | None = None
    pooled_clients: int = 0
    units: int = 0
    tests: tuple[Tested, ...] = ()
    failed_units: int = 0
    points: tuple[Tested, ...] = ()
    non_monotone: bool = False
    smallest_leakage: Share | None = None
    certificate: Certificate | None = None
    deployment: Deployment | None = None
    costs: Costs | None = None
    objective: Estimate | None = None
    rank: int | None = None
    tied: bool = False

    @property
    def breaks_a_cap(self) -> bool:
        """Whether it keeps the budget, and was priced for that, but not the caps of eq. 8."""
        return not self.feasible and self.costs is not None
