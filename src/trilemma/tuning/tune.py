"""The main job: from a request to a protection and its strength, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trilemma.attacks import get
from trilemma.protections.specs import parse_protection
from trilemma.tuning.certificate.beside import proved_rounds
from trilemma.tuning.certificate.wording import proved_headline
from trilemma.tuning.choosing.advice import advice, headline, limits
from trilemma.tuning.choosing.ladder import ladder_procedures, tested_rungs
from trilemma.tuning.choosing.pricing import ranked
from trilemma.tuning.choosing.procedures import procedures, procedures_beside
from trilemma.tuning.choosing.shown import beliefs_procedure, rounds_procedure
from trilemma.tuning.fronts.curves import curve_procedures
from trilemma.tuning.fronts.meter import Meter
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.results.gallery import GALLERY, gallery_procedure
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import (
    AttackUsed,
    Beside,
    PaperLeakage,
    RoundsPoint,
    Rung,
    Verdict,
)
from trilemma.work.replay import settle

if TYPE_CHECKING:
    from trilemma.estimation.units import Source
    from trilemma.tuning.choosing.procedures import Procedure
    from trilemma.tuning.fronts.points import Evaluated
    from trilemma.work.journal import Run
    from trilemma.work.progress import Ticker

__all__ = ["tune"]

_CURVE_UNITS: Final = 24  # at each strength
_CURVE_SEEDS: Final = 3  # enough to see a trend; the choice is priced on all of them


def tune(
    source: Source,
    request: Request | None = None,
    *,
    run: Run | None = None,
    data_key: bytes | None = None,
    workers: int = 1,
    ticker: Ticker | None = None,
    **settings: Any,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `tune(scenario, budget=.3)` makes the request of its keywords. What `run` already holds is not
    measured again; without it everything stays in memory. Where the scenario shows records,
    gallery.json in the run's folder shows some beside what the attacks make of them.
    """
    plan = Plan.of(source, Request.of(request, settings), run=run, data_key=data_key)
    measured = plan.request.basis == "measured"
    estimated = measured and plan.request.knows != "anyone"  # a proof needs no estimates
    meter = Meter(plan, _CURVE_UNITS, _CURVE_SEEDS)
    with plan.crew(workers) as crew:
        done = partial(settle, crew=crew, run=run, ticker=ticker, known={})
        found = done(procedures(plan))
        candidates = ranked([each for each in found.values() if isinstance(each, Candidate)])
        chosen = next((each for each in candidates if each.rank == 1), None)
        beside = procedures_beside(plan, chosen)
        ladder = ladder_procedures(plan) if estimated and plan.request.ladder else {}
        wanted = plan.request.strengths and estimated
        curves = curve_procedures(meter, candidates) if wanted else {}
        shown: dict[str, Procedure] = {}
        if chosen is not None and chosen.certificate is not None:
            shown = {"rounds": proved_rounds(plan, chosen)}
        elif chosen is not None and measured:
            shown = {
                "rounds": rounds_procedure(plan, chosen),
                "beliefs": beliefs_procedure(plan, chosen),
            }
        after = done(beside | ladder | curves | shown)
        rungs = tested_rungs(plan, {each.name: each for each in candidates}) if measured else ()
        verdict = _verdict(
            *(plan, found, candidates, chosen),
            beside=tuple(after[name] for name in beside),
            ladder=(*rungs, *(after[name] for name in ladder)),
            curves=tuple(after[name] for name in curves),
            rounds=after.get("rounds", ()),
            beliefs=after.get("beliefs", ()),
        )
        if run is not None and plan.scenario.show_records and chosen is not None:
            pictures = done({"gallery": gallery_procedure(plan, chosen)})
            pictures["gallery"].save(run.folder / GALLERY)
        elif run is not None:
            (run.folder / GALLERY).unlink(missing_ok=True)  # of a scenario that showed records
    return verdict


def _verdict(
    plan: Plan,
    found: Mapping[str, Any],
    candidates: tuple[Candidate, ...],
    chosen: Candidate | None,
    beside: tuple[Beside, ...],
    ladder: tuple[Rung, ...],
    curves: tuple[Evaluated, ...],
    rounds: tuple[RoundsPoint, ...],
    beliefs: tuple[PaperLeakage, ...],
) -> Verdict:
    """Everything in one value."""
    constants, made = found.get("promises", (None, ()))
    request = plan.request
    control = found["control"]
    return Verdict(
        headline=(
            proved_headline(None if chosen is None else chosen.certificate, request)
            if request.knows == "anyone"
            else headline(request, plan.claim, plan.p_max)
        ),
        limits=limits(chosen, plan.suite, request, plan.claim),
        protection=None if chosen is None else parse_protection(chosen.protection or "none"),
        basis=request.basis if chosen is None else chosen.basis,
        statement=(
            "No protection was shown to keep the budget." if chosen is None else chosen.statement
        ),
        advice="" if chosen else advice(candidates, request, plan.setting),
        leakage=None if chosen is None else chosen.leakage,
        request=request,
        claim=plan.claim,
        largest_success_rate=plan.p_max,
        attacks=tuple(
            AttackUsed(
                name=name,
                rung=get(name).rung,
                effort=repr(get(name)),
                restarts=request.restarts,
                control_units=control.units,
                control_recovered=control.by_attack[name],
            )
            for name in plan.suite.attacks
        ),
        deployment=(chosen and chosen.deployment) or plan.deployment,
        federation=plan.federation,
        chosen=None if chosen is None else chosen.name,
        candidates=candidates,
        ladder=ladder,
        beside=beside,
        constants=constants,
        promises=made,
        curves=curves,
        rounds=rounds,
        beliefs=beliefs,
        versions=versions(),
        show_records=plan.scenario.show_records,
    )
