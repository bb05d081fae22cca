"""The choice: every family measured, and the best of those that keep the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trilemma.protection.specs import in_words
from trilemma.tuning.choice.candidate_evidence import measured_candidate
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.proof.proved_candidates import certified_candidate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.families.game_counts import Counts
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["Choice", "choose", "procedures"]


@dataclass(frozen=True)
class Choice:
    """What was found: the candidates in their order, and the control of every attack."""

    candidates: tuple[Candidate, ...]
    control: Counts

    @property
    def chosen(self) -> Candidate | None:
        """The best, None where nothing keeps the budget."""
        return next((each for each in self.candidates if each.rank == 1), None)

    @property
    def answer(self) -> str:
        """What is known before the further results are measured."""
        found = "nothing was shown to keep the budget"
        if self.chosen is not None:
            what = in_words(self.chosen.protection or "none")
            needed = self.chosen.protection not in (None, "none")
            found = f"use {what}" if needed else f"{what} keep the budget"
        return f"the answer: {found}; further results follow"


def procedures(plan: Plan) -> dict[str, Procedure[Any]]:
    """All that is measured before anything is chosen, by name."""
    wanted: dict[str, Procedure[Any]] = {"control": plan.gauge().control()}
    if not all(map(plan.proves, plan.families)):
        wanted["baseline"] = _baseline(plan)
    return wanted | {family.name: _candidate(plan, family) for family in plan.families}


def _candidate(plan: Plan, family: Family) -> Procedure[Candidate]:
    if plan.proves(family):
        return certified_candidate(plan, family)
    return measured_candidate(plan.gauge(), family, plan.pricing, plan.claim.kappa)


def _baseline(plan: Plan) -> Procedure[None]:
    """The trainings without protection: measured candidates are compared with them."""
    yield plan.pricing.baseline()


def choose(measured: Mapping[str, Any]) -> Choice:
    """Rank the candidates among what the procedures returned."""
    candidates = dict(measured)
    control = candidates.pop("control")
    candidates.pop("baseline", None)
    return Choice(ranked(list(candidates.values())), control)
