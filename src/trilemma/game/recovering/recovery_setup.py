"""What attacks on single updates need, put together from a scenario, and what they recover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import torch

from trilemma.attacks import get
from trilemma.beliefs.recovery import Criterion
from trilemma.errors import printable
from trilemma.execution.fingerprints import fingerprint
from trilemma.game.recovering.criterion import choose_criterion
from trilemma.game.recovering.recoveries import measure
from trilemma.game.recovering.recovery_rates import Rates
from trilemma.game.recovering.units import Measurement, draw_unit
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import own_code, parts_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trilemma.game.recovering.criterion import Guess
    from trilemma.game.recovering.recoveries import Outcomes
    from trilemma.game.scenario import Source

__all__ = ["Prepared", "Recovered"]


@dataclass(frozen=True)
class Prepared:
    """A measurement of a scenario, and when a record of it counts as recovered."""

    source: Source
    scenario: Scenario
    guess: Guess
    measurement: Measurement

    @classmethod
    def of(
        cls,
        source: Source,
        attack: str,
        success: str | None,
        units_for: Callable[[int], int],
        **effort: Any,
    ) -> Self:
        """The attack of this name on `units_for(clients)` units of each client.

        `success` is the criterion as text (None: chosen for the scenario), `effort` what else a
        `Measurement` takes.
        """
        chosen = get(attack)  # an unknown name is refused before any data is read
        scenario = source if isinstance(source, Scenario) else source()
        units = units_for(len(scenario.records))
        measurement = Measurement(attack=chosen, units=units, **effort)
        criterion = Criterion.parse(success) if success else None
        guess = choose_criterion(scenario, criterion, seed=measurement.seed)
        return cls(source, scenario, guess, measurement)

    def settings(self) -> dict[str, Any]:
        """What decides the numbers, besides the federation."""
        criterion, measurement = self.guess.criterion, self.measurement
        return {
            "records": [len(records) for records in self.scenario.records],
            "success": f"{criterion.metric}:{criterion.threshold!r}",
            **measurement.settings(),
            "attack's code": fingerprint(type(measurement.attack)),
            "protection's code": own_code(parts_of(measurement.protection)),
        }

    def measured(self, *, literal: bool = False, **how: Any) -> tuple[Outcomes | None, Outcomes]:
        """What is recovered under the protection, if there is one, and without.

        `literal`: by the letter of Algorithm 3. How: `run`, `workers`, `ray`, `show_progress`.
        """
        asked = replace(self.measurement, literal=True) if literal else self.measurement
        return measure(self.source, asked, self.guess.criterion, **how)

    def headline(self) -> str:
        """What is attacked, how, how often, in one line."""
        asked, scenario = self.measurement, self.scenario
        clients = len(scenario.records)
        return (
            f"{printable(scenario.name)}: {asked.units * clients} updates of "
            f"{scenario.local_training.unit_size} records from {clients} clients "
            f"({scenario.local_training.algorithm}), {asked.attack!r}, best of {asked.restarts}, "
            f"seed {asked.seed}"
        )

    def originals(self, units: int) -> NDArray[np.float32]:
        """The records [units, S, *shape] of the first units."""
        drawn = [draw_unit(self.scenario, self.measurement, number) for number in range(units)]
        return torch.stack([unit.records.inputs for unit in drawn]).numpy()


@dataclass(frozen=True)
class Recovered:
    """What one attack recovers from updates, without a protection (the control) and under one."""

    prepared: Prepared
    protection: str
    control: Outcomes
    protected: Outcomes | None

    @property
    def works(self) -> bool:
        """Whether the attack recovers unprotected records."""
        return Rates.of(self.control).attack_works

    def rows(self) -> list[tuple[str, Outcomes]]:
        """The outcomes by the name of their protection."""
        rows = [("none (control)", self.control)]
        return rows if self.protected is None else [*rows, (self.protection, self.protected)]

    def as_json(self) -> dict[str, Any]:
        """The rates as plain values."""
        both = {"control": self.control, "protected": self.protected}
        return {
            "scenario": self.prepared.scenario.name,
            "protection": self.protection,
            **{name: asdict(Rates.of(value)) for name, value in both.items() if value is not None},
            "attack_failed": not self.works,
            "units": len(self.control.client),
        }
