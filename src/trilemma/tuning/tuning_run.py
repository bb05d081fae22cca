"""The main job: from a request to a protection and its strength, with the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilemma.attacks import get
from trilemma.execution.scheduler import Scheduler
from trilemma.game.job_results import decode
from trilemma.protection.specs import parse_protection
from trilemma.tuning.choice.advice import advice, headline, limits, untried, weak
from trilemma.tuning.choice.choose import choose, procedures
from trilemma.tuning.choice.gallery_jobs import keep_gallery
from trilemma.tuning.further_results import further_procedures
from trilemma.tuning.plan import Plan
from trilemma.tuning.possible_jobs import possible_further, possible_jobs
from trilemma.tuning.request import Request
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import AttackUsed, Verdict
from trilemma.tuning.time_left import Remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.game.scenario import Source
    from trilemma.tuning.choice.choose import Choice

__all__ = ["tune", "verdict_on"]


def tune(
    source: Source,
    request: Request | None = None,
    *,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
    answered: Callable[[], object] | None = None,
    **settings: Any,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `tune(scenario, budget=.3)` makes the request of its keywords. What `run` already holds is not
    measured again; without it everything stays in memory. `workers` are processes, or actors of
    the Ray cluster at the address `ray`. `answered` is called when the choice is made, while
    further results are still measured. Where the scenario shows records, gallery.json in the run's
    folder shows some beside what the attacks make of them.
    """
    plan, pictures = Plan.of(source, Request.of(request, settings), run=run), run is not None
    if run is not None:
        plan.setting.keep(run)
    with plan.crew(workers, ray) as pool:
        scheduler = Scheduler(pool, decode, run=run, watcher=ticker)
        remaining = Remaining(
            possible_jobs(plan, pictures=pictures), workers, share=plan.setting.share
        )
        if ticker is not None:
            ticker.expect(remaining)
        choice = choose(scheduler.run_all(procedures(plan)))
        if ticker is not None:
            ticker.tell(choice.answer)
            remaining.expect(possible_further(plan, pictures=pictures))
        if answered is not None:
            answered()
        further = scheduler.run_all(further_procedures(plan, choice, pictures=pictures))
    gallery = further.pop("gallery", None)
    if run is not None:
        keep_gallery(gallery, run)
    return verdict_on(plan, choice, further)


def verdict_on(plan: Plan, choice: Choice, further: Mapping[str, Any]) -> Verdict:
    """Everything in one value: what was chosen, and the further results by their fields."""
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
        basis="measured" if chosen is None else chosen.basis,
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
        versions=versions(),
        show_records=plan.scenario.show_records,
        **{field: further.get(field, ()) for field in ("beside", "curves", "rounds", "beliefs")},
    )
