"""What the user wants: a privacy budget, and how much utility and efficiency matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilemma.errors import InvalidInput
from trilemma.quantities import between, finite

__all__ = ["DEFAULT_BUDGET", "DEFAULT_EFFICIENCY_WEIGHT", "DEFAULT_UTILITY_WEIGHT", "Problem"]

DEFAULT_BUDGET: Final = 0.3
DEFAULT_UTILITY_WEIGHT: Final = 1.0
DEFAULT_EFFICIENCY_WEIGHT: Final = 0.01  # a doubled round weighs as much as a point of accuracy


@dataclass(frozen=True)
class Problem:
    """min η_u·ε_u + η_e·ε_e subject to leakage ≤ budget (eq. constraint_optimization_problem).

    A weight is one number, or one a client (η_{u,k}, η_{e,k}). The optional caps bound ε_u and
    ε_e besides.
    """

    budget: float = DEFAULT_BUDGET
    utility_weight: float | tuple[float, ...] = DEFAULT_UTILITY_WEIGHT
    efficiency_weight: float | tuple[float, ...] = DEFAULT_EFFICIENCY_WEIGHT
    max_utility_loss: float | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        between("budget (largest tolerated leakage, normalised)", self.budget)
        for name in ("utility_weight", "efficiency_weight"):
            weight = getattr(self, name)
            for value in weight if isinstance(weight, tuple) else (weight,):
                if finite(name, value) < 0:
                    raise InvalidInput(f"{name} must be finite and not negative, got {value}.")
        for name in ("max_utility_loss", "max_cost"):
            cap = getattr(self, name)
            if cap is not None:
                finite(name, cap)

    @classmethod
    def constrained(cls, budget: float, max_utility_loss: float) -> Problem:
        """min ε_e subject to leakage ≤ budget, ε_u ≤ φ (eq. privacy_utility_constraints)."""
        return cls(budget, 0.0, 1.0, max_utility_loss=max_utility_loss)

    def objective(self, utility_losses: Sequence[float], costs: Sequence[float]) -> float:
        """(1/K) Σ_k (η_{u,k}·ε_{u,k} + η_{e,k}·ε_{e,k}).

        >>> Problem(0.3, utility_weight=(1.0, 3.0)).objective([0.25, 0.25], [0.0, 0.0])
        0.5
        """
        clients = len(utility_losses)
        terms = zip(
            _per_client("utility_weight", self.utility_weight, clients),
            utility_losses,
            _per_client("efficiency_weight", self.efficiency_weight, clients),
            costs,
            strict=True,
        )
        return math.fsum(wu * loss + we * cost for wu, loss, we, cost in terms) / clients

    def breach(self, loss: float, cost: float, what: tuple[str, str]) -> str:
        """Which cap a utility loss or an efficiency reduction, so called, exceeds; or empty."""
        caps = (self.max_utility_loss, self.max_cost)
        for name, value, cap in zip(what, (loss, cost), caps, strict=True):
            if cap is not None and value > cap:
                return (
                    f"the {name} of {value:.3g} exceeds the cap of {cap:g}; raise the cap or the "
                    f"budget."
                )
        return ""


def _per_client(name: str, weight: float | tuple[float, ...], clients: int) -> tuple[float, ...]:
    if not isinstance(weight, tuple):
        return (weight,) * clients
    if len(weight) != clients:
        raise InvalidInput(
            f"{name} has {len(weight)} entries for {clients} clients; give one a client, or one."
        )
    return weight
