"""The choice: every family measured, and the best of those that keep the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trilemma.protection.specs import in_words
from trilemma.tuning.choice.candidate_evidence import measured_candidate
from trilemma.tuning.families.calibrator import CONTROL_GAMES, control_jobs
from trilemma.tuning.families.game_counts import Counts, seen_of
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.proof.proved_candidates import certified_candidate
from trilemma.tuning.results.candidate import Candidate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.jobs import AttackJob
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.families.game_counts import GameResults
    from trilemma.tuning.plan import Plan

__all__ = ["Choice", "attacked", "certain", "choose", "control_of", "controls"]


@dataclass(frozen=True)
class Choice:
    """What was found: the candidates in their order, and the control of every attack."""

    candidates: tuple[Candidate, ...]
    control: Counts

    @property
    def chosen(self) -> Candidate | None:
        """The best, None where nothing keeps the budget."""
        return next((item for item in self.candidates if item.rank == 1), None)

    @property
    def answer(self) -> str:
        """What is known before the further results are measured."""
        found = "nothing was shown to keep the budget"
        if self.chosen is not None:
            what = in_words(self.chosen.protection or "none")
            needed = self.chosen.protection not in (None, "none")
            found = f"use {what}" if needed else f"{what} keep the budget"
        return f"the answer: {found}; further results follow"


def certain(plan: Plan) -> dict[str, Procedure[Any]]:
    """By family what trainings alone find: proofs, and what rests on a key."""
    return {
        family.name: _candidate(plan, family)
        for family in plan.families
        if plan.proves(family) or family.seen == "nothing"
    }


def attacked(plan: Plan) -> dict[str, Procedure[Any]]:
    """By family what only attacks find, and the trainings that they all are compared with."""
    own = certain(plan)
    wanted = {
        family.name: _candidate(plan, family) for family in plan.families if family.name not in own
    }
    return {"baseline": _baseline(plan), **wanted} if wanted else {}


def controls(plan: Plan) -> dict[str, Procedure[GameResults]]:
    """By attack its games on unprotected single rounds, the strongest first."""
    return {control_of(job.attacks[0]): _control(job) for job in control_jobs(plan.suite)}


def control_of(attack: str) -> str:
    """What the control of an attack is called among procedures."""
    return f"control, {attack}"


def _control(job: AttackJob) -> Procedure[GameResults]:
    return seen_of(job, (yield [job]))


def _candidate(plan: Plan, family: Family) -> Procedure[Candidate]:
    if plan.proves(family):
        return certified_candidate(plan, family)
    return measured_candidate(plan.calibrator(), family, plan.pricing, plan.claim.kappa)


def _baseline(plan: Plan) -> Procedure[None]:
    """The trainings without protection: measured candidates are compared with them."""
    yield plan.pricing.baseline()


def choose(plan: Plan, measured: Mapping[str, Any], unfinished: Mapping[str, int]) -> Choice:
    """Rank the candidates among what the procedures returned.

    Of those `unfinished` it is said how many games they have played; others have not begun.
    """
    candidates = [
        measured[family.name]
        if family.name in measured
        else Candidate(
            family.name,
            "measured",
            feasible=False,
            deployable=family.deployable,
            statement=f"Not finished: {unfinished.get(family.name, 0)} games were played.",
        )
        for family in plan.families
    ]
    return Choice(ranked(candidates), control(plan, measured))


def control(plan: Plan, measured: Mapping[str, Any]) -> Counts:
    """What the attacks whose games were played win of unprotected single rounds."""
    seen = {name: measured.get(control_of(name)) for name in plan.suite.attacks}
    won = {
        name: int(value.correct[name].sum()) for name, value in seen.items() if value is not None
    }
    failed = sum(value.failed for value in seen.values() if value is not None)
    return Counts(CONTROL_GAMES if won else 0, won, {}, failed)
