"""How a federation trains where that is not its scenario's own way, and on what it is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario
    from trilemma.learning import LocalTraining
    from trilemma.records.records import Records

__all__ = ["Judge", "Recipe", "judged_records"]

Judge = Literal["test", "choosing", "reporting"]


@dataclass(frozen=True)
class Recipe:
    """Local training, server step and weights of a training, and the records that judge it.

    The step is constant, or falls linearly to zero with `server_decay`.

    `judge` is the test set, or one of two disjoint sets: one on which settings are chosen, and
    one that took no part in the choice (`judged_records`). `threshold` is that of the rounds
    (None: two thirds of the clients, plus one).
    """

    local_training: LocalTraining
    server_lr: float
    server_decay: bool
    equal_weights: bool
    judge: Judge = "test"
    threshold: int | None = None

    def applied(self, scenario: Scenario) -> Scenario:
        """The scenario that trains so and is judged so; its public records stay."""
        return replace(
            scenario,
            local_training=self.local_training,
            server_lr=self.server_lr,
            server_decay=self.server_decay,
            test=judged_records(scenario, self.judge),
            public=scenario.public_records,
        )

    def describe(self) -> str:
        """Everything that tells this recipe from others, as text."""
        weights = "equal weights" if self.equal_weights else "weights by records"
        least = "" if self.threshold is None else f", threshold {self.threshold}"
        falls = " falling to zero" if self.server_decay else ""
        return (
            f"{self.local_training}, server step {self.server_lr!r}{falls}, {weights}{least}, "
            f"judged on the {self.judge} records"
        )


def judged_records(scenario: Scenario, judge: Judge) -> Records:
    """Every other public record chooses; the test set reports, without those where it is both.

    Where a scenario has no public records, its test set stands for them.
    """
    if judge == "test":
        return scenario.test_records
    places = torch.arange(len(scenario.public_records))
    if len(places) < 2:
        raise InvalidInput(
            f"settings are chosen on one half of the public records, but there are {len(places)}; "
            "give the scenario more public or test records."
        )
    if judge == "choosing":
        return scenario.public_records[places[::2]]
    return (
        scenario.test_records
        if scenario.public is not None
        else scenario.public_records[places[1::2]]
    )
