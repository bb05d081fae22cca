"""What is estimated whatever will be chosen: the other rungs of the ladder, and the curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.tuning.choosing.ladder import ladder_procedures
from trilemma.tuning.fronts.curves import curve_procedures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Procedure

__all__ = ["certain_estimates", "estimate_procedures"]


def estimate_procedures(
    plan: Plan, candidates: Sequence[Candidate]
) -> dict[str, dict[str, Procedure]]:
    """By "ladder" and "curves" what is asked for of them."""
    asked = plan.request
    estimated = asked.basis == "measured" and asked.knows != "anyone"  # a proof needs no estimates
    return {
        "ladder": ladder_procedures(plan, candidates) if estimated and asked.ladder else {},
        "curves": curve_procedures(plan, candidates) if estimated and asked.strengths else {},
    }


def certain_estimates(plan: Plan, candidates: Sequence[Candidate]) -> dict[str, Procedure]:
    """Those that will be asked for, where these candidates are all that was measured so far."""
    groups = estimate_procedures(plan, candidates).values()
    return {name: each for some in groups for name, each in some.items()}
