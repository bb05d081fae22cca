"""What GroupNorm would give where BatchNorm allows no proof: the same federation, proved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trilemma.game.scenario import Scenario
from trilemma.learning.modules import with_group_norm
from trilemma.protection.specs import in_words
from trilemma.tuning.families.proof_conditions import CERTIFIED

if TYPE_CHECKING:
    from trilemma.game.scenario import Source
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["GroupNormed", "asked_with_group_norm", "said_of_group_norm"]


@dataclass(frozen=True)
class GroupNormed:
    """A source whose scenario has GroupNorm in the place of BatchNorm."""

    source: Source

    def __call__(self) -> Scenario:
        made = self.source if isinstance(self.source, Scenario) else self.source()
        return replace(made, model=with_group_norm(made.model), sends_statistics=False)


def asked_with_group_norm(plan: Plan) -> Request | None:
    """What is asked of the federation with GroupNorm; None where nothing is to be compared.

    Weights that `initialise` loads belong to the model with BatchNorm, and fit no other.
    """
    names = tuple(item.name for item in plan.families if item.name in CERTIFIED)
    hindered = plan.unprovable and plan.scenario.task.normalises_batches
    asked = plan.request
    if not (names and hindered and asked.basis == "proved" and plan.scenario.initialise is None):
        return None
    return asked.model_copy(update={"families": names})


def said_of_group_norm(plan: Plan, found: Candidate | None) -> str:
    """What was proved with GroupNorm and what it costs, in a sentence."""
    if found is None or found.protection is None:
        return "With GroupNorm in the place of BatchNorm no proof keeps the budget either."
    metric = plan.federation.metric or ("accuracy" if plan.scenario.classes else "minus the loss")
    cost = ""
    if (costs := found.costs) is not None:
        before, after = costs.unprotected_metric, costs.protected_metric
        cost = f"; {metric} {before:.3g} without protection, {after:.3g} with it"
    return (
        "With GroupNorm in the place of BatchNorm there is a proof, for every attacker: "
        f"{in_words(found.protection)} keeps the budget{cost}."
    )
