"""Further results, measured at what was chosen: they decide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilemma.tuning.choice.gallery_jobs import gallery
from trilemma.tuning.choice.other_adversary import beside
from trilemma.tuning.choice.shown_results import leakage_by_rounds, paper_leakage
from trilemma.tuning.pareto.family_curves import curves

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.choice.choose import Choice
    from trilemma.tuning.plan import Plan

__all__ = ["further_procedures"]


def further_procedures(plan: Plan, choice: Choice, *, pictures: bool) -> dict[str, Procedure[Any]]:
    """By field of the verdict what is measured for it; by "gallery" the `pictures`, if wanted."""
    chosen, asked = choice.chosen, plan.request
    wanted: dict[str, Procedure[Any]] = {"beside": beside(plan, chosen)}
    if asked.strengths and not all(map(plan.proves, plan.families)):
        wanted["curves"] = curves(plan, choice.candidates)
    if chosen is not None:
        wanted["rounds"] = leakage_by_rounds(plan, chosen)
        wanted["beliefs"] = paper_leakage(plan, chosen)
    if pictures:
        wanted["gallery"] = gallery(plan, chosen)
    return wanted
