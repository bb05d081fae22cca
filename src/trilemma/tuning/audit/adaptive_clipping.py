"""Flower's adaptive clipping: how the norm moves from round to round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.training import train
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transforms.update_clipping import Clipping
from trilemma.quantities import finite, positive

if TYPE_CHECKING:
    from trilemma.entropy import System
    from trilemma.game.scenario import Scenario
    from trilemma.protection.round_info import RoundInfo

__all__ = ["AdaptiveRule", "adaptive_norms"]

_DIGITS = 3  # of a norm: what is told of it fits into a protection's text


@dataclass(frozen=True)
class AdaptiveRule:
    """C ← C · exp(-rate · (b - quantile)), b the share of clients that were clipped, with noise.

    The noise on the count has deviation σ_b (K/20 unless it is given), for which the noise on
    updates is raised to (z⁻² - (2σ_b)⁻²)^(-1/2) times the norm.
    """

    noise_multiplier: float
    clients: int
    first: float
    quantile: float
    rate: float
    count_deviation: float | None = None

    def __post_init__(self) -> None:
        positive("initial_clipping_norm", self.first)
        positive("clip_norm_lr", self.rate)
        if finite("noise_multiplier", self.noise_multiplier) < 0:
            raise InvalidInput(f"noise_multiplier is {self.noise_multiplier}; it is at least 0.")
        if not 0 <= self.quantile <= 1:
            raise InvalidInput(f"target_clipped_quantile is {self.quantile}; it lies in 0 .. 1.")
        if self.noise_multiplier and self.noise_multiplier >= 2 * self.count_noise:
            raise InvalidInput(
                f"noise_multiplier = {self.noise_multiplier:g} needs a clipped_count_stddev above "
                f"{self.noise_multiplier / 2:g}, and it is {self.count_noise:g}; raise it."
            )

    @property
    def count_noise(self) -> float:
        """σ_b."""
        if self.count_deviation is not None:
            return self.count_deviation
        return self.clients / 20 if self.noise_multiplier else 0.0

    @property
    def noise(self) -> float:
        """The noise multiplier that is left for updates."""
        if not self.noise_multiplier:
            return 0.0
        return 1 / math.sqrt(self.noise_multiplier**-2 - (2 * self.count_noise) ** -2)

    def following(self, norm: float, clipped: float) -> float:
        """The norm after a round in which so many (with noise) of the clients were clipped."""
        share = clipped / self.clients
        return norm * math.exp(-self.rate * (share - self.quantile))


@lru_cache(maxsize=8)
def adaptive_norms(scenario: Scenario, rule: AdaptiveRule) -> tuple[float, ...]:
    """C_0 .. C_R of one training of the scenario, the server's noise left out."""
    watched = _Watched(rule)
    recipe = own_recipe(scenario)
    train(
        scenario,
        Protection((watched,)),
        recipe,
        weights=fresh_weights(scenario, [0]),
        clients_per_round=scenario.cohort,
        real_rounds=0,
    )
    watched.close()
    return tuple(float(f"{norm:.{_DIGITS}g}") for norm in watched.norms)


@dataclass(frozen=True, eq=False)
class _Watched(Transform):
    """Clips by the rule, and keeps the norms: a training calls it round by round."""

    rule: AdaptiveRule
    norms: list[float] = field(default_factory=list)
    _counted: list[int] = field(default_factory=lambda: [0])

    name: ClassVar[str] = "adaptive-clipping"

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        if not self.norms:
            self.norms.append(self.rule.first)
        while len(self.norms) <= round.number:
            self.close()
        norm = self.norms[-1]
        self._counted[0] += bool(norm < float(update.values.norm()))
        return Clipping(norm).apply(update, client=client, round=round, entropy=entropy)

    def close(self) -> None:
        """The norm of the next round."""
        draw = Seeded(0).generator("clipped count", len(self.norms))
        noisy = self._counted[0] + self.rule.count_noise * float(draw.normal())
        self.norms.append(self.rule.following(self.norms[-1], noisy))
        self._counted[0] = 0

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return replace(mechanism, clip=self.norms[-1] if self.norms else self.rule.first)

    def describe(self) -> str:
        return self.name
