"""One point of a curve or a front: a family at a strength, what leaks and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from trilemma.game.estimates import Estimate
from trilemma.tuning.results.documents import Share, Shares

__all__ = ["RESOLUTION", "Point"]

RESOLUTION: Final = (0.001, 0.001, 0.02)  # a clock tells 8 % of a round's duration apart


@dataclass(frozen=True)
class Point:
    """A family at a strength (None: it has none), and what was measured there.

    `place` is where the strength lies in the family's domain, from 0 to 1. `leakage` is None
    where the server reads nothing; `by_attack` counts the games that each attack wins. `metric`,
    and the `bits` and `seconds` that a round takes a client, are those under the protection. The
    costs are None where the federation could not be trained, and the protection where it cannot
    be run.
    """

    family: str
    place: Share | None
    symbol: str | None = None
    strength: float | None = None
    protection: str | None = None
    basis: Literal["measured", "cryptographic"] = "measured"
    leakage: Shares | None = None
    units: int = 0
    recovered: int = 0
    utility_loss: Estimate | None = None
    efficiency_reduction: Estimate | None = None
    metric: float | None = None
    bits: float | None = None
    seconds: float | None = None
    by_attack: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def objectives(self) -> tuple[float, float, float] | None:
        """(leakage, ε_u, r / (1 + r)) with r = 1 + ε_e, all to be minimised; None: no costs.

        r is how long a protected round lasts in unprotected ones: r / (1 + r) is ½ without
        protection and stays below 1, so that a slow protection does not drown the others. What
        only a key protects leaks 0.
        """
        if self.utility_loss is None or self.efficiency_reduction is None:
            return None
        ratio = 1 + self.efficiency_reduction.value
        leaked = 0.0 if self.leakage is None else self.leakage.value
        found = (leaked, self.utility_loss.value, ratio / (1 + ratio))
        steps = zip(found, RESOLUTION, strict=True)
        leaked, loss, share = (round(value / step) * step for value, step in steps)
        return leaked, loss, share
