"""The main job: from a budget to a protection and its parameter, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trilemma.attacks import get
from trilemma.errors import UnknownName
from trilemma.estimation.costs import BANDWIDTH
from trilemma.observations import Adversary
from trilemma.protections.specs import parse_protection
from trilemma.tuning.choosing.advice import advice, limits
from trilemma.tuning.choosing.pricing import ranked
from trilemma.tuning.choosing.procedures import (
    BasisAsked,
    Procedure,
    procedures,
    procedures_beside,
)
from trilemma.tuning.fronts.curves import calibrations, curve_procedures, predictions
from trilemma.tuning.fronts.meter import Meter
from trilemma.tuning.plan import Plan
from trilemma.tuning.results.gallery import GALLERY, RECORDS, gallery_procedure
from trilemma.tuning.results.provenance import versions
from trilemma.tuning.results.verdict import AttackUsed, Basis, Beside, Candidate, Verdict
from trilemma.work.replay import settle

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.units import Source
    from trilemma.tuning.fronts.points import Evaluated
    from trilemma.tuning.plan import Effort
    from trilemma.tuning.problem import Problem
    from trilemma.work.journal import Run
    from trilemma.work.progress import Ticker

__all__ = ["BASES", "tune"]

BASES: Final = ("measured", "certified", "surrogate", "all")
_CURVE_UNITS: Final = 24  # at each strength, and a few more to have as many of each client
_CURVE_SEEDS: Final = 3  # enough to see a trend; the choice is priced on all of them


def tune(
    source: Source,
    problem: Problem,
    *,
    protections: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    adversary: Adversary = Adversary.SERVER,
    basis: BasisAsked = "measured",
    confidence: float = 0.95,
    bandwidth: float = BANDWIDTH,
    criterion: Criterion | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    run: Run | None = None,
    data_key: bytes | None = None,
    workers: int = 1,
    ticker: Ticker | None = None,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `protections` are names of families and `attacks` of attacks that bind (None: the defaults).
    What `run` already holds is not measured again; without it everything stays in memory. Where
    the scenario shows records, gallery.json in the run's folder shows some beside recoveries.
    """
    if basis not in BASES:
        raise UnknownName("basis", basis, BASES)
    plan = Plan.of(
        source,
        problem,
        mechanisms=protections,
        attacks=attacks,
        adversary=adversary,
        confidence=confidence,
        bandwidth=bandwidth,
        criterion=criterion,
        effort=effort,
        seed=seed,
        run=run,
        data_key=data_key,
    )
    shown = run is not None and plan.scenario.show_records
    meter = Meter(plan, _CURVE_UNITS, _CURVE_SEEDS, pictures=RECORDS if shown else 0)
    with plan.crew(workers) as crew:
        done = partial(settle, crew=crew, run=run, ticker=ticker, known={})
        found = done(procedures(plan, basis))
        candidates = ranked([each for each in found.values() if isinstance(each, Candidate)])
        chosen = next((each for each in candidates if each.rank == 1), None)
        beside, curves = procedures_beside(plan, chosen), dict[str, Procedure]()
        if plan.effort.strengths and basis in ("measured", "all"):
            curves = curve_procedures(meter, done(calibrations(plan)))
        after = done(beside | curves)
        verdict = _verdict(
            *(plan, basis, found, candidates, chosen),
            beside=tuple(after[name] for name in beside),
            curves=tuple(after[name] for name in curves),
        )
        if run is not None and shown and chosen is not None:
            pictures = done({"gallery": gallery_procedure(meter, verdict, chosen)})
            pictures["gallery"].save(run.folder / GALLERY)
        elif run is not None:
            (run.folder / GALLERY).unlink(missing_ok=True)  # of a scenario that showed records
    return verdict


def _verdict(
    plan: Plan,
    basis: BasisAsked,
    found: Mapping[str, Any],
    candidates: tuple[Candidate, ...],
    chosen: Candidate | None,
    beside: tuple[Beside, ...],
    curves: tuple[Evaluated, ...],
) -> Verdict:
    """Everything in one value."""
    constants, made = found.get("promises", (None, ()))
    fallback: Basis = "measured" if basis == "all" else basis
    nothing = "No protection was shown to keep the budget."
    return Verdict(
        limits=limits(chosen, plan.suite, plan.adversary),
        protection=None if chosen is None else parse_protection(chosen.protection or "none"),
        basis=fallback if chosen is None else chosen.basis,
        statement=nothing if chosen is None else chosen.statement,
        advice="" if chosen else advice(candidates, plan.problem, plan.setting, plan.adversary),
        leakage=None if chosen is None else chosen.leakage,
        problem=plan.problem,
        adversary=plan.adversary,
        confidence=plan.confidence,
        largest_success_rate=plan.p_max,
        attacks=_attacks(plan, found),
        local_training=plan.scenario.local_training,
        federation=plan.federation,
        chosen=None if chosen is None else chosen.name,
        candidates=candidates,
        beside=beside,
        constants=constants,
        promises=made,
        curves=curves,
        predictions=predictions(plan, curves),
        seed=plan.seed,
        training_seeds=plan.pricing.seeds,
        versions=versions(),
        show_records=plan.scenario.show_records,
    )


def _attacks(plan: Plan, found: Mapping[str, Any]) -> tuple[AttackUsed, ...]:
    control = found["control"]
    return tuple(
        AttackUsed(
            name=name,
            effort=repr(get(name)),
            restarts=plan.effort.restarts,
            binding=True,
            control_units=control.units,
            control_recovered=control.by_attack[name],
        )
        for name in plan.suite.binding
    )
