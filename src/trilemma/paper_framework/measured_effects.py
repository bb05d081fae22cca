"""What protections do to a federation: leakage to the paper's attacker, utility and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.federation.round_timing import round_costs
from trilemma.federation.training import train
from trilemma.game.costs import compare, fewest_rounds
from trilemma.game.prepared_models import fresh_weights
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.game.recovering.recoveries import attack_units
from trilemma.game.recovering.recovery_rates import Rates
from trilemma.game.recovering.units import Measurement
from trilemma.paper_framework.paper_result import Measured
from trilemma.protection.protection import Protection

if TYPE_CHECKING:
    from trilemma.attacks import Attack
    from trilemma.beliefs.recovery import Criterion
    from trilemma.federation.training import History
    from trilemma.game.scenario import Scenario

__all__ = ["JobRunner"]

_SEEDS: Final = 3
_RESTARTS: Final = 3
_CONFIDENCE: Final = 0.95


@dataclass(eq=False)
class JobRunner:
    """Measures protections of one federation, each once, all against the same trainings."""

    scenario: Scenario
    attack: Attack
    criterion: Criterion
    kappa: float
    seed: int
    steps: int
    say: Callable[[str], None]

    seeds: int = _SEEDS
    restarts: int = _RESTARTS

    def __post_init__(self) -> None:
        self._plain: tuple[History, ...] = ()
        self._found: dict[tuple[str, int], Measured] = {}

    def measure(self, protection: Protection, gamma: float, units: int) -> Measured:
        """The leakage of so many fresh updates or a few more, utility loss and efficiency."""
        key = protection.describe(), units
        if key not in self._found:
            self.say(f"attacking, training and timing {protection.describe()}")
            self._found[key] = self._measured(protection, gamma, units)
        return self._found[key]

    def _measured(self, protection: Protection, gamma: float, units: int) -> Measured:
        clients = len(self.scenario.records)
        asked = Measurement(
            self.attack,
            protection,
            units=-(-units // clients),
            restarts=self.restarts,
            steps=self.steps,
            seed=self.seed,
        )
        outcomes = attack_units(self.scenario, asked, self.criterion, range(asked.units * clients))
        rates = Rates.of(outcomes, confidence=_CONFIDENCE, kappa=self.kappa)
        found = Measured(gamma, protection.describe(), rates.units, rates.recovered, rates.leakage)
        self._plain = self._plain or self._trained(Protection())
        try:
            trained = self._trained(protection)
            timed = round_costs(
                self.scenario,
                protection,
                own_recipe(self.scenario),
                rounds=fewest_rounds(_CONFIDENCE),
                clients_per_round=self.scenario.cohort,
            )
        except (InvalidInput, ProtocolViolation) as error:
            return replace(found, note=f"it cannot be trained so: {error}")
        costs = compare(found.protection, self._plain, trained, timed, confidence=_CONFIDENCE)
        return replace(
            found,
            utility_loss=costs.utility_loss,
            efficiency_reduction=costs.efficiency_reduction,
            bits=costs.protected.bits / costs.unprotected.bits,
        )

    def _trained(self, protection: Protection) -> tuple[History, ...]:
        scenario, seeds = self.scenario, range(self.seeds)
        return train(
            scenario,
            protection,
            replace(own_recipe(scenario), rounds=scenario.rounds),
            seeds=seeds,
            weights=fresh_weights(scenario, seeds),
            clients_per_round=scenario.cohort,
            real_rounds=0,
        )
