"""The main job: from a request to a protection and its strength, with the evidence."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from trilemma.attacks import get
from trilemma.execution.scheduler import Scheduler
from trilemma.game.job_results import decode
from trilemma.protection.specs import parse_protection
from trilemma.tuning.choice.advice import (
    advice,
    contradictions,
    headline,
    limits,
    not_yet,
    unlearnt,
    untried,
    weak,
    weighed,
)
from trilemma.tuning.choice.choose import attacked, certain, choose, control_of, controls
from trilemma.tuning.choice.gallery_jobs import gallery, keep_gallery
from trilemma.tuning.choice.other_adversary import beside
from trilemma.tuning.choice.shown_results import leakage_by_rounds, paper_leakage
from trilemma.tuning.pareto.family_curves import curves
from trilemma.tuning.plan import Plan
from trilemma.tuning.possible_jobs import possible_further, possible_jobs
from trilemma.tuning.proof.group_norm import (
    GroupNormed,
    asked_with_group_norm,
    said_of_group_norm,
)
from trilemma.tuning.proof.noise_sweep import at_proved_noise, trade_off
from trilemma.tuning.request import Request
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import AttackUsed, Verdict
from trilemma.tuning.time_left import Remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilemma.execution.journal import Run
    from trilemma.execution.progress import Ticker
    from trilemma.execution.scheduler import Procedure
    from trilemma.game.scenario import Source
    from trilemma.tuning.choice.choose import Choice
    from trilemma.tuning.results.candidate import Candidate

__all__ = ["further_procedures", "tune", "verdict_on"]

_ATTACKED: Final = 0.99  # of the minutes; Python starts in the rest, and the page is written


def tune(
    source: Source,
    request: Request | None = None,
    *,
    run: Run | None = None,
    workers: int = 1,
    ray: str | None = None,
    ticker: Ticker | None = None,
    answered: Callable[[Verdict], object] | None = None,
    **settings: Any,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `tune(scenario, budget=.3)` makes the request of its keywords. What `run` already holds is not
    measured again; without it everything stays in memory. `workers` are processes, or actors of
    the Ray cluster at the address `ray`. Proofs need trainings alone, and come first; `answered`
    is called with a provisional verdict then, and again when the answer was attacked, and when all
    families were measured. Attacks end after the request's minutes, but not before there is an
    answer. Where the scenario shows records, gallery.json in the run's folder shows some beside
    what the attacks make of them.
    """
    begun, pictures = time.monotonic(), run is not None
    plan = Plan.of(source, Request.of(request, settings), run=run)
    until = _until(plan.request.minutes, begun)
    if run is not None:
        plan.setting.keep(run)
    known = run is not None and (run.folder / Verdict.file).exists()

    def tell(choice: Choice, further: Mapping[str, Any]) -> None:
        news = scheduler.worked or not known  # what an earlier process wrote may say more
        if answered is not None and choice.chosen is not None and news:
            answered(verdict_on(plan, choice, further, pending=True))

    with plan.pool(workers, ray) as pool:
        scheduler = Scheduler(pool, decode, run=run, watcher=ticker)
        remaining = Remaining(
            possible_jobs(plan, pictures=pictures),
            workers,
            share=plan.setting.share(plan.claim.rounds),
        )
        if ticker is not None:
            ticker.expect(remaining)
        found = scheduler.run_all(certain(plan))
        choice = choose(plan, found, {})
        tell(choice, {})
        said, first = _with_group_norm(plan, run, workers, ray, ticker), choice.chosen
        attacks: dict[str, Procedure[Any]] = {}
        if first is not None:
            remaining.end_at(until)
            # What says most of an answer: attacks on it, and the strongest on what it protects.
            lead = control_of(plan.suite.lead)
            attacks = _attacks_on(plan, first)
            found |= scheduler.run_all({**attacks, lead: controls(plan)[lead]}, until=until)
            choice = choose(plan, found, {})
            tell(choice, found | said)
        others = list(attacked(plan).items())
        size = max(2, workers)  # families side by side, so that some of them end
        for start in range(0, len(others), size):
            within = until if choice.chosen is not None else None
            found |= scheduler.run_all(dict(others[start : start + size]), until=within)
            choice = choose(plan, found, scheduler.unfinished)
        if ticker is not None:
            ticker.tell(choice.answer)
            further = possible_further(plan, pictures=pictures)
            remaining.expect({name: work for name, work in further.items() if name not in found})
        if first is not None and choice.chosen is not None and choice.chosen.name != first.name:
            for field in attacks:
                found.pop(field, None)  # they were attacks on another protection
        tell(choice, found | said)
        for name, procedure in further_procedures(plan, choice, pictures=pictures).items():
            found |= scheduler.run_all({name: procedure}, until=until)
        for name, control in controls(plan).items():
            found |= scheduler.run_all({name: control}, until=until)
        choice = choose(plan, found, scheduler.unfinished)
    scheduler.unfinished.pop("at_proved_noise", None)  # "trade_off" stands for it
    if run is not None:
        keep_gallery(found.get("gallery"), run)
    return verdict_on(plan, choice, found | said, unfinished=scheduler.unfinished)


def _until(minutes: float | None, begun: float) -> float | None:
    """When attacks end: half of their minutes are left however long it took to read the model."""
    if minutes is None:
        return None
    return max(begun + _ATTACKED * 60 * minutes, time.monotonic() + 30 * minutes)


def further_procedures(plan: Plan, choice: Choice, *, pictures: bool) -> dict[str, Procedure[Any]]:
    """By field of the verdict what is measured at the choice, and decides nothing.

    By "gallery" the `pictures`, if wanted.
    """
    chosen, asked = choice.chosen, plan.request
    wanted: dict[str, Procedure[Any]] = {"beside": beside(plan, chosen)}
    if chosen is not None and chosen.certificate is not None:
        wanted["trade_off"] = trade_off(plan, chosen)
    if asked.strengths and not all(map(plan.proves, plan.families)):
        wanted["curves"] = curves(plan, choice.candidates)
    if chosen is not None:
        wanted["rounds"] = leakage_by_rounds(plan, chosen)
        wanted["beliefs"] = paper_leakage(plan, chosen)
    if pictures:
        wanted["gallery"] = gallery(plan, chosen)
    return wanted


def _attacks_on(plan: Plan, chosen: Candidate) -> dict[str, Procedure[Any]]:
    """Attacks on a proved answer, or one that rests on a key: the first that is measured."""
    wanted: dict[str, Procedure[Any]] = {"beside": beside(plan, chosen)}
    if chosen.certificate is not None:
        wanted["at_proved_noise"] = at_proved_noise(plan, chosen)
        wanted["rounds"] = leakage_by_rounds(plan, chosen)  # of the same games
    return wanted


def _with_group_norm(
    plan: Plan, run: Run | None, workers: int, ray: str | None, ticker: Ticker | None
) -> dict[str, tuple[str, ...]]:
    """What GroupNorm would give where BatchNorm hinders a proof, found by trainings alone."""
    request, key = asked_with_group_norm(plan), "what GroupNorm would give"
    if request is None:
        return {}
    kept = None if run is None else run.committed(key)
    if kept is not None:
        return {"group-norm": (kept.decode(),)}
    if ticker is not None:
        ticker.say("no proof with BatchNorm; finding what GroupNorm would give")
    there = Plan.of(GroupNormed(plan.source), request)
    with there.pool(workers, ray) as pool:
        found = Scheduler(pool, decode).run_all(certain(there))
    said = said_of_group_norm(there, choose(there, found, {}).chosen)
    if run is not None:
        run.commit(key, said.encode())
    return {"group-norm": (said,)}


def verdict_on(
    plan: Plan,
    choice: Choice,
    further: Mapping[str, Any],
    *,
    pending: bool = False,
    unfinished: Mapping[str, int] = MappingProxyType({}),
) -> Verdict:
    """Everything in one value: what was chosen, and the further results by their fields.

    Attacks may be `pending`; the procedures that are `unfinished` have played so many games.
    """
    request, chosen, control = plan.request, choice.chosen, choice.control
    protection = None if chosen is None else parse_protection(chosen.protection or "none")
    *others, last = limits(plan, chosen)
    return Verdict(
        headline=headline(request, plan.claim, plan.p_max, chosen),
        limits=(
            *unlearnt(plan, chosen),
            *further.get("group-norm", ()),
            *not_yet(plan, unfinished, pending=pending),
            *contradictions(further.get("rounds", ())),
            *weak(chosen, control.by_attack, control.units),
            *others,
            *untried(plan, control.by_attack, control.units),
            *plan.scenario.remarks,
            *weighed(plan.scenario),
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
                knows=get(name).knows,
                effort=repr(get(name)),
                restarts=plan.job_runner.starts(get(name)),
                control_units=control.units,
                control_recovered=control.by_attack[name],
            )
            for name in control.by_attack
        ),
        deployment=(chosen and chosen.deployment) or plan.deployment,
        federation=plan.federation,
        chosen=None if chosen is None else chosen.name,
        candidates=choice.candidates,
        versions=versions(),
        show_records=plan.scenario.show_records,
        trade_off=further.get("trade_off") or further.get("at_proved_noise"),
        **{field: further.get(field, ()) for field in ("beside", "curves", "rounds", "beliefs")},
    )
