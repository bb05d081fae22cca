"""A choice told: the verdict, with all that is measured beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trilemma.attacks import get
from trilemma.protections.specs import parse_protection
from trilemma.tuning.asides import certain_estimates, measure_asides
from trilemma.tuning.choosing.advice import advice, headline, limits, untried, weak
from trilemma.tuning.choosing.choice import choose
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import AttackUsed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilemma.tuning.choosing.choice import Choice, Done
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Procedure

__all__ = ["judged", "verdict_on"]


def judged(
    plan: Plan,
    done: Done,
    tell: Callable[[str], None] | None = None,
    along: Callable[[Choice], Mapping[str, Procedure]] | None = None,
) -> Verdict:
    """Measure, choose, measure what stands beside; `tell` hears the answer in between.

    What someone else will need of what was chosen is done `along` with what stands beside it.
    """
    choice = choose(plan, done, partial(certain_estimates, plan))
    if tell is not None:
        tell(choice.answer)
    return verdict_on(plan, choice, done, along(choice) if along else None)


def verdict_on(
    plan: Plan, choice: Choice, done: Done, along: Mapping[str, Procedure] | None = None
) -> Verdict:
    """Measure what stands beside the choice, and put everything in one value."""
    request, chosen, control = plan.request, choice.chosen, choice.control
    protection = None if chosen is None else parse_protection(chosen.protection or "none")
    *others, last = limits(plan, chosen)
    return Verdict(
        headline=headline(request, plan.claim, plan.p_max, chosen),
        limits=(
            *weak(chosen, control.by_attack, control.units),
            *others,
            *untried(plan, control.by_attack, control.units),
            *plan.scenario.remarks,
            *(protection.caveats if protection else ()),
            last,
        ),
        protection=protection,
        basis=request.basis if chosen is None else chosen.basis,
        statement=(
            "No protection was shown to keep the budget." if chosen is None else chosen.statement
        ),
        advice="" if chosen else advice(choice.candidates, request, plan.setting),
        leakage=None if chosen is None else chosen.leakage,
        request=request,
        claim=plan.claim,
        largest_success_rate=plan.p_max,
        attacks=tuple(
            AttackUsed(
                name=name,
                rung=get(name).rung,
                effort=repr(get(name)),
                restarts=plan.bench.starts(get(name)),
                control_units=control.units,
                control_recovered=control.by_attack[name],
            )
            for name in plan.suite.attacks
        ),
        deployment=(chosen and chosen.deployment) or plan.deployment,
        federation=plan.federation,
        chosen=None if chosen is None else chosen.name,
        candidates=choice.candidates,
        constants=choice.constants,
        promises=choice.promises,
        versions=versions(),
        show_records=plan.scenario.show_records,
        **measure_asides(plan, choice, done, along),
    )
